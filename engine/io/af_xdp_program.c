/* The BPF program of `af_xdp`: five instructions that send the frames of a queue to the socket of
 * that queue, loaded and attached with bpf(2). A link holds it, which ends with this process in any
 * case. */
#include <errno.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "io/af_xdp.h"

#ifndef BPF_F_XDP_HAS_FRAGS /* Linux 5.18 */
#define BPF_F_XDP_HAS_FRAGS (1U << 5)
#endif

static int bpf(int command, union bpf_attr *attributes)
{
    return (int)syscall(SYS_bpf, command, attributes, sizeof *attributes);
}

static int make_map(unsigned entries)
{
    union bpf_attr attributes = {0};

    attributes.map_type = BPF_MAP_TYPE_XSKMAP;
    attributes.key_size = attributes.value_size = sizeof(uint32_t);
    attributes.max_entries = entries;
    return bpf(BPF_MAP_CREATE, &attributes);
}

static int load(int map_fd)
{
    const struct bpf_insn program[] = {
        /* r2 = number of the receive queue; r1 = the map; r3 = action for a queue without a socket
         */
        {.code = BPF_LDX | BPF_MEM | BPF_W,
         .dst_reg = BPF_REG_2,
         .src_reg = BPF_REG_1,
         .off = offsetof(struct xdp_md, rx_queue_index)},
        {.code = BPF_LD | BPF_DW | BPF_IMM,
         .dst_reg = BPF_REG_1,
         .src_reg = BPF_PSEUDO_MAP_FD,
         .imm = map_fd},
        {0}, /* upper half of the map's number */
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_3, .imm = XDP_PASS},
        {.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_redirect_map},
        {.code = BPF_JMP | BPF_EXIT},
    };
    union bpf_attr attributes = {0};

    attributes.prog_type = BPF_PROG_TYPE_XDP;
    attributes.insns = (uint64_t)(uintptr_t)program;
    attributes.insn_cnt = sizeof program / sizeof program[0];
    attributes.license = (uint64_t)(uintptr_t) "Apache-2.0";
    attributes.prog_flags = BPF_F_XDP_HAS_FRAGS;
    memcpy(attributes.prog_name, "switchmark", sizeof "switchmark");
    const int fd = bpf(BPF_PROG_LOAD, &attributes);
    if (fd >= 0 || errno == EPERM)
        return fd;
    attributes.prog_flags = 0; /* older kernels receive only frames in one buffer */
    return bpf(BPF_PROG_LOAD, &attributes);
}

static int attach(int program_fd, int device, unsigned flags)
{
    union bpf_attr attributes = {0};

    attributes.link_create.prog_fd = (uint32_t)program_fd;
    attributes.link_create.target_ifindex = (uint32_t)device;
    attributes.link_create.attach_type = BPF_XDP;
    attributes.link_create.flags = flags;
    return bpf(BPF_LINK_CREATE, &attributes);
}

static void explain(const char *call, int reason, char *error, size_t size)
{
    const char *hint = "";

    if (reason == EPERM)
        hint = " (run as root, or with CAP_NET_ADMIN and CAP_BPF)";
    else if (reason == EBUSY || reason == EEXIST)
        hint = " (the device has another XDP program: ip link set dev NAME xdp off)";
    else if (reason == ENOSPC)
        hint = " (a veth device needs as many receive queues as its peer has transmit queues)";
    else if (reason == ERANGE)
        hint = " (the device's MTU is too large for its XDP; lower it)";
    snprintf(error, size, "%s: %s%s", call, strerror(reason), hint);
}

bool xdp_program_attach(struct xdp_port *port, bool native_only, char *error, size_t size)
{
    port->map_fd = make_map(port->queues[port->queue_count - 1].id + 1);
    const int program_fd = port->map_fd >= 0 ? load(port->map_fd) : -1;
    if (program_fd < 0) {
        explain("XDP program", errno, error, size);
        return false;
    }
    port->native = true;
    port->link_fd = attach(program_fd, port->device, XDP_FLAGS_DRV_MODE);
    if (port->link_fd < 0 && errno == EOPNOTSUPP && !native_only) {
        port->native = false;
        port->link_fd = attach(program_fd, port->device, XDP_FLAGS_SKB_MODE);
    }
    if (port->link_fd < 0)
        explain("attach the XDP program", errno, error, size);
    close(program_fd); /* the link holds the program */
    return port->link_fd >= 0;
}

bool xdp_program_add(const struct xdp_port *port, const struct xdp_queue *queue, char *error,
                     size_t size)
{
    union bpf_attr attributes = {0};
    const uint32_t key = queue->id, value = (uint32_t)queue->fd;

    attributes.map_fd = (uint32_t)port->map_fd;
    attributes.key = (uint64_t)(uintptr_t)&key;
    attributes.value = (uint64_t)(uintptr_t)&value;
    if (bpf(BPF_MAP_UPDATE_ELEM, &attributes) == 0)
        return true;
    explain("XDP map", errno, error, size);
    return false;
}
