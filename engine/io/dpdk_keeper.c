/* The keeper: a thread per port that waits for the peer, attaches the driver, waits until the peer
 * disconnects, detaches the driver, and begins again. It sleeps in poll() while traffic runs. Every
 * new peer gets a new device, so that no frame of an earlier peer remains in its rings. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "io/dpdk.h"
#include "io/node.h"

#define RETRY_MS 10
#define MEMIF_LINK_POLL_MS 2
#define RING_POLL_MS 2

static void mac_text(const struct dpdk_port *port, char *text, size_t size)
{
    const uint8_t *mac = port->queues[0]->base.mac;

    snprintf(text, size, "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4],
             mac[5]);
}

/* The driver calls connect() while it is added, and gets the socket of the connected peer. */
static bool virtio_user_attach(struct dpdk_port *port, int fd)
{
    char name[32], arguments[512], mac[18];
    bool attached;

    mac_text(port, mac, sizeof mac);
    snprintf(name, sizeof name, "virtio_user%u_%u", port->index, port->keeper.attachments);
    snprintf(arguments, sizeof arguments,
             "path=%s,queue_size=%u,mac=%s,queues=%u,cq=%u,packed_vq=%u,in_order=%u,mrg_rxbuf=%u",
             port->spec.target, port->spec.queue_size, mac, port->queue_count,
             port->queue_count > 1, port->spec.packed, port->spec.in_order, port->spec.mergeable);
    dpdk_eal_lock();
    dpdk_socket_hand_over(fd);
    attached = dpdk_device_add(port, name, arguments);
    dpdk_socket_hand_over(-1);
    if (attached && !dpdk_device_start(port)) {
        dpdk_device_remove(port);
        attached = false;
    }
    dpdk_eal_unlock();
    return attached;
}

static void device_detach(struct dpdk_port *port)
{
    dpdk_eal_lock();
    dpdk_device_remove(port);
    dpdk_eal_unlock();
}

static void serve_virtio_user(struct dpdk_port *port, int fd)
{
    if (!virtio_user_attach(port, fd)) {
        dpdk_socket_stopping(port, RETRY_MS);
        return;
    }
    dpdk_open_gates(port);
    dpdk_socket_wait_hangup(port, fd, -1);
    dpdk_close_gates(port);
    dpdk_socket_hurry(fd);
    device_detach(port);
}

static void serve_vhost(struct dpdk_port *port, int fd)
{
    if (!dpdk_vhost_attach(port, fd)) {
        dpdk_socket_stopping(port, RETRY_MS);
        return;
    }
    while (!dpdk_socket_wait_hangup(port, fd, dpdk_vhost_open_gates(port) ? -1 : RING_POLL_MS))
        continue;
    dpdk_vhost_detach(port); /* also closes the gates */
}

/* Our end of the driver's control channel: an abstract socket with a secret name. */
static int memif_driver_end(const char *abstract)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const size_t length = strlen(abstract);
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    memcpy(address.sun_path + 1, abstract, length);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address,
                           (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* The memif driver unmaps its rings as soon as its control channel closes, even while the worker
 * uses them. So the driver is connected to us and we relay its messages; when the real peer
 * disconnects, the worker is stopped first. */
static bool memif_attach(struct dpdk_port *port, int *driver_fd)
{
    char name[32], arguments[512], mac[18], abstract[64];
    uint64_t unique;
    int pair[2] = {-1, -1};
    bool attached;

    mac_text(port, mac, sizeof mac);
    snprintf(name, sizeof name, "net_memif%u_%u", port->index, port->keeper.attachments);
    random_fill(&unique, sizeof unique); /* process numbers repeat between containers */
    snprintf(abstract, sizeof abstract, "switchmark-%016llx-%s", (unsigned long long)unique, name);
    snprintf(arguments, sizeof arguments,
             "role=%s,id=%u,socket=%s,socket-abstract=yes,rsize=%u,bsize=%u,mac=%s%s",
             port->spec.memif_server ? "server" : "client", port->spec.memif_id, abstract,
             (unsigned)__builtin_ctz(port->spec.queue_size), port->room_bytes, mac,
             port->spec.zero_copy ? ",zero-copy=yes" : "");
    dpdk_eal_lock();
    attached = dpdk_device_add(port, name, arguments);
    if (attached) {
        if (!port->spec.memif_server &&
            socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0)
            dpdk_socket_hand_over(pair[1]);
        attached = dpdk_device_start(port);
        dpdk_socket_hand_over(-1);
        *driver_fd = port->spec.memif_server ? memif_driver_end(abstract) : pair[0];
        if (pair[1] >= 0)
            close(pair[1]);
        if (!attached || *driver_fd < 0) {
            dpdk_device_remove(port);
            attached = false;
        }
    }
    dpdk_eal_unlock();
    return attached;
}

static void serve_memif(struct dpdk_port *port, int fd)
{
    int driver_fd = -1;

    if (!memif_attach(port, &driver_fd)) {
        dpdk_socket_stopping(port, RETRY_MS);
        return;
    }
    while (dpdk_socket_relay(port, fd, driver_fd, MEMIF_LINK_POLL_MS)) {
        if (!dpdk_device_is_up(port))
            continue;
        dpdk_open_gates(port);
        dpdk_socket_relay(port, fd, driver_fd, -1);
        break;
    }
    dpdk_close_gates(port);
    device_detach(port);
    close(driver_fd);
}

static void *keeper_main(void *argument)
{
    struct dpdk_port *port = argument;
    int fd;

    while ((fd = dpdk_socket_wait_peer(port)) >= 0) {
        if (port->kind == DPDK_VIRTIO_USER)
            serve_virtio_user(port, fd);
        else if (port->kind == DPDK_VHOST)
            serve_vhost(port, fd);
        else
            serve_memif(port, fd);
        close(fd);
        port->keeper.attachments++;
        if (dpdk_socket_stopping(port, 0))
            break;
    }
    return NULL;
}

bool dpdk_keeper_start(struct dpdk_port *port, char *error, size_t size)
{
    sigset_t all, before;
    int result;

    port->keeper.stop_fd = eventfd(0, EFD_CLOEXEC);
    if (port->spec.listens && !dpdk_socket_listen(port, error, size))
        return false;
    /* The main thread receives the signals. */
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    result = pthread_create(&port->keeper.thread, NULL, keeper_main, port);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    port->keeper.is_running = result == 0;
    if (result != 0)
        snprintf(error, size, "cannot start a thread: %s", strerror(result));
    return port->keeper.is_running;
}

void dpdk_keeper_stop(struct dpdk_port *port)
{
    const uint64_t increment = 1;

    if (port->keeper.is_running &&
        write(port->keeper.stop_fd, &increment, sizeof increment) == sizeof increment)
        pthread_join(port->keeper.thread, NULL);
    if (port->keeper.listen_fd >= 0) {
        unlink(port->spec.target);
        close(port->keeper.listen_fd);
    }
    if (port->keeper.stop_fd >= 0)
        close(port->keeper.stop_fd);
}
