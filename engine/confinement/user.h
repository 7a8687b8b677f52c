/* The user of the engine's threads.
 *
 * The user root, even without capabilities, owns the files of root. It may change their modes,
 * owners and times, and connect to sockets that only root may use, such as that of a container
 * engine. landlock.h forbids none of this. Another user may not do it because of the permissions of
 * the files, which cost nothing per frame. */
#ifndef SM_CONFINEMENT_USER_H
#define SM_CONFINEMENT_USER_H

/* A user and group ID that no account has and no distribution assigns (systemd and Debian reserve
 * 65520 to 65533). It is not nobody (65534), because daemons run as nobody and files of network
 * file systems belong to nobody. It is below 65536, so that it also exists in a user namespace,
 * which usually has 65536 IDs. */
#define USER_NOBODYS 65525U

/* Change this thread, and the threads that it creates, from root to that user, without other
 * groups. It keeps its permitted capabilities, and none of them is effective. Without CAP_SETUID
 * and CAP_SETGID, or if the user does not exist in the namespace, nothing changes. */
void user_leave_root(void);
#endif
