/* Packet sockets. They receive every protocol, so that flooding is visible, but not the frames that
 * this host sends: otherwise each frame would count twice if sender and receiver share a device. */
#include "io/packet.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

const char *const packet_qdisc_names[] = {"bypass", "queue", NULL};

int packet_socket(int index, unsigned qdisc, char *error, size_t size)
{
    const struct packet_mreq all = {.mr_ifindex = index, .mr_type = PACKET_MR_PROMISC};
    const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    const int on = 1;

    if (fd < 0) {
        snprintf(error, size, "packet socket: %s%s", strerror(errno),
                 errno == EPERM ? " (run as root or with CAP_NET_RAW)" : "");
        return -1;
    }
    if (qdisc == PACKET_QDISC_PAST) /* without it everything works, but more slowly */
        setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof on);
    setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof all);
    if (setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on) == 0)
        return fd;
    snprintf(error, size, "PACKET_IGNORE_OUTGOING: %s (Linux 4.20 or later is needed)",
             strerror(errno));
    close(fd);
    return -1;
}

bool packet_cut_tagged(int fd, char *error, size_t size)
{
    const uint32_t has_tag = (uint32_t)(SKF_AD_OFF + SKF_AD_VLAN_TAG_PRESENT);
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, has_tag),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
        BPF_STMT(BPF_RET | BPF_K, ETH_HLEN),
    };
    const struct sock_fprog program = {sizeof code / sizeof code[0], code};

    if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0)
        return true;
    snprintf(error, size, "SO_ATTACH_FILTER: %s", strerror(errno));
    close(fd);
    return false;
}

bool packet_bind(int fd, int index, bool hears, char *error, size_t size)
{
    const struct sockaddr_ll address = {.sll_family = AF_PACKET,
                                        .sll_protocol = hears ? htons(ETH_P_ALL) : 0,
                                        .sll_ifindex = index};

    if (bind(fd, (const struct sockaddr *)&address, sizeof address) == 0)
        return true;
    snprintf(error, size, "bind: %s", strerror(errno));
    close(fd);
    return false;
}

uint64_t packet_drops(int fd)
{
    struct tpacket_stats_v3 stats = {0}; /* begins like the struct of the older rings */
    socklen_t length = sizeof stats;

    /* Reading resets the counter of the kernel. */
    if (getsockopt(fd, SOL_PACKET, PACKET_STATISTICS, &stats, &length) != 0)
        return 0;
    return stats.tp_drops;
}
