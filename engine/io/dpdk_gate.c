/* The gates between keeper and worker. The worker sets its busy flag and then reads the gate
 * (dpdk_burst.c); the keeper closes the gate and then reads the busy flag. Both need a full barrier
 * in between. The keeper executes it for both sides with membarrier(2), so that the worker has no
 * cost. */
#include <unistd.h>

#include <linux/membarrier.h>
#include <sys/syscall.h>

#include "io/dpdk.h"

#define LEFT_BEHIND_US 500000
#define SENDS_ONLY                                                                                 \
    1000 /* after so many transmit calls without a receive call, the worker only sends */

bool dpdk_fence_needed;

/* Called before there is a second thread: later the kernel would wait for every CPU, about 10 ms.
 */
static __attribute__((constructor)) void register_for_barriers(void)
{
    dpdk_fence_needed =
        syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) != 0;
}

static void gate_close(_Atomic bool *gate, _Atomic bool *busy)
{
    atomic_store(gate, false);
    if (!dpdk_fence_needed)
        syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
    atomic_thread_fence(memory_order_seq_cst);
    while (atomic_load(busy))
        usleep(20);
}

void dpdk_open_gate(struct dpdk_queue *queue)
{
    atomic_store(&queue->rx_open, true);
    atomic_store(&queue->tx_open, true);
}

void dpdk_open_gates(struct dpdk_port *port)
{
    for (unsigned i = 0; i < port->queue_count; i++) {
        struct dpdk_queue *queue = port->queues[i];
        queue->ethdev = port->ethdev;
        queue->vhost_device = port->vhost.device;
        dpdk_open_gate(queue);
    }
}

/* Return true if the worker has found no further frame. A worker that only sends, or has ended,
 * never does. */
static bool is_emptied(const struct dpdk_queue *queue, unsigned calls)
{
    return !atomic_load(&queue->rx_open) || atomic_load(&queue->rx_empty) ||
           atomic_load(&queue->tx_calls) - calls > SENDS_ONLY;
}

static void wait_for_empty(struct dpdk_port *port)
{
    unsigned calls[IO_QUEUES_MAX], emptied = 0;

    for (unsigned i = 0; i < port->queue_count; i++) {
        calls[i] = atomic_load(&port->queues[i]->tx_calls);
        atomic_store(&port->queues[i]->rx_empty, false);
    }
    for (unsigned waited_us = 0; waited_us < LEFT_BEHIND_US && !atomic_load(&port->keeper.closing);
         waited_us += 200) {
        while (emptied < port->queue_count && is_emptied(port->queues[emptied], calls[emptied]))
            emptied++;
        if (emptied == port->queue_count)
            return;
        usleep(200);
    }
}

void dpdk_close_gates(struct dpdk_port *port)
{
    bool were_open = false;

    for (unsigned i = 0; i < port->queue_count; i++) {
        struct dpdk_queue *queue = port->queues[i];
        if (!atomic_load(&queue->tx_open))
            continue;
        were_open = true;
        gate_close(&queue->tx_open, &queue->tx_busy);
    }
    if (were_open) {
        io_lost_link(&port->queues[0]->base.links_lost);
        wait_for_empty(port);
    }
    for (unsigned i = 0; i < port->queue_count; i++)
        gate_close(&port->queues[i]->rx_open, &port->queues[i]->rx_busy);
}
