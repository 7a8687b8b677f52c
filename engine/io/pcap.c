/* The backend of files: sent frames are written to a pcap file (nanoseconds); received frames come
 * from a pcap file, as fast as the role reads, only during trials. So traffic can be generated,
 * stored and checked without a network. A port that only writes receives nothing; a port that only
 * reads discards sent frames. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <sys/stat.h>

#include "fail.h"
#include "io/io.h"
#include "traffic/frame.h"
#include "traffic/pcap.h"

static const struct io_ops io_pcap;

#define WRITE_BUFFER_BYTES (1U << 20)
#define USAGE "pcap takes read=FILE, write=FILE or both"

struct pcap_port {
    struct io_port base;
    uint8_t *tx_buffers, *rx_buffers; /* IO_BURST_MAX of `stride` bytes */
    size_t stride;
    FILE *out;
    char *out_buffer;
    uint8_t *bytes; /* content of the input file */
    struct pcap_reader reader;
    unsigned trial; /* trial in which frames were last handed out */
    uint32_t longest;
    uint64_t too_long; /* frames longer than any configured frame, which are dropped here */
};

struct pcap_paths {
    char read[200], write[200];
};

static bool parse(const char *arguments, struct pcap_paths *paths, char *error, size_t size)
{
    char key[8], value[200];
    bool bad = false;

    memset(paths, 0, sizeof *paths);
    while ((arguments = io_next_argument(arguments, key, sizeof key, value, sizeof value, &bad))) {
        if (strcmp(key, "read") == 0 && value[0] != '\0') {
            snprintf(paths->read, sizeof paths->read, "%s", value);
        } else if (strcmp(key, "write") == 0 && value[0] != '\0') {
            snprintf(paths->write, sizeof paths->write, "%s", value);
        } else {
            return fail(error, size, "'%s' is not understood; " USAGE, key);
        }
    }
    if (bad || (paths->read[0] == '\0' && paths->write[0] == '\0'))
        return fail(error, size, USAGE);
    if (strcmp(paths->read, paths->write) == 0)
        return fail(error, size, "read and write name the same file; give two");
    return true;
}

static bool is_same_file(const char *a, const char *b)
{
    struct stat first, second;

    return a[0] != '\0' && b[0] != '\0' && stat(a, &first) == 0 && stat(b, &second) == 0 &&
           S_ISREG(first.st_mode) && first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

/* The output file of a port is empty from the moment it is opened: no port of the process may read
 * it, and no other port may write it, under any name. */
static bool is_free_to_write(const struct io_config *config, const char *path, char *error,
                             size_t size)
{
    for (unsigned i = 0; i < config->spec_count; i++) {
        struct pcap_paths other;
        const char *arguments;
        char ignored[160];

        if (io_of(config->specs[i], &arguments) != &io_pcap ||
            !parse(arguments, &other, ignored, sizeof ignored))
            continue;
        if (is_same_file(path, other.read))
            return fail(error, size, "write=%s is the file that port %u reads (%s); give two", path,
                        i, other.read);
        if (i != config->index && is_same_file(path, other.write))
            return fail(error, size, "write=%s is the file that port %u writes (%s); give two",
                        path, i, other.write);
    }
    return true;
}

static bool pcap_check(const char *arguments, char *error, size_t size)
{
    struct pcap_paths paths;
    return parse(arguments, &paths, error, size);
}

static void pcap_close(struct io_port *base)
{
    struct pcap_port *port = (struct pcap_port *)base;

    if (port->out != NULL)
        fclose(port->out); /* flush has reported errors */
    free(port->out_buffer);
    free(port->bytes);
    free(port->tx_buffers);
    free(port->rx_buffers);
    free(port);
}

static bool open_out(struct pcap_port *port, const char *path, char *error, size_t size)
{
    const uint32_t header[6] = {PCAP_MAGIC_NS, 2 | 4 << 16, 0, 0, PCAP_FRAME_MAX, PCAP_ETHERNET};

    port->out = fopen(path, "wbe");
    port->out_buffer = malloc(WRITE_BUFFER_BYTES);
    if (port->out == NULL || port->out_buffer == NULL ||
        setvbuf(port->out, port->out_buffer, _IOFBF, WRITE_BUFFER_BYTES) != 0 ||
        fwrite(header, sizeof header, 1, port->out) != 1)
        return fail(error, size, "cannot write %s: %s", path, strerror(errno));
    return true;
}

/* Read the whole file once, so that an invalid file is refused before anything runs. */
static bool open_in(struct pcap_port *port, const char *path, char *error, size_t size)
{
    char reason[160] = "";
    struct pcap_frame frame;
    size_t length;
    enum pcap_state state = PCAP_BAD;

    port->bytes =
        pcap_load(pcap_open_file(path, reason, sizeof reason), &length, reason, sizeof reason);
    if (port->bytes != NULL &&
        pcap_begin(&port->reader, port->bytes, length, reason, sizeof reason)) {
        do
            state = pcap_next(&port->reader, &frame, reason, sizeof reason);
        while (state == PCAP_FRAME);
    }
    if (state == PCAP_BAD)
        return fail(error, size, "%s: %s", path, reason);
    if (state == PCAP_CUT)
        fprintf(stderr, "switchmark-traffic: %s ends inside a frame; %llu whole ones are used\n",
                path, (unsigned long long)port->reader.frames);
    return pcap_begin(&port->reader, port->bytes, length, reason, sizeof reason);
}

static struct io_port *pcap_open(const struct io_config *config, char *error, size_t size)
{
    struct pcap_port *port = aligned_alloc(64, (sizeof *port + 63) / 64 * 64);
    struct pcap_paths paths;

    if (port == NULL)
        snprintf(error, size, "out of memory");
    if (port == NULL || !parse(config->arguments, &paths, error, size)) {
        free(port);
        return NULL;
    }
    memset(port, 0, sizeof *port);
    port->stride = (config->frame_length_max + 127U) / 64 * 64;
    port->longest = config->frame_length_max;
    port->tx_buffers = aligned_alloc(64, IO_BURST_MAX * port->stride);
    port->rx_buffers = aligned_alloc(64, IO_BURST_MAX * port->stride);
    const bool has_buffers = port->tx_buffers != NULL && port->rx_buffers != NULL;
    if (!has_buffers)
        snprintf(error, size, "out of memory");
    if (!has_buffers || (paths.read[0] != '\0' && !open_in(port, paths.read, error, size)) ||
        (paths.write[0] != '\0' && (!is_free_to_write(config, paths.write, error, size) ||
                                    !open_out(port, paths.write, error, size)))) {
        pcap_close(&port->base);
        return NULL;
    }
    snprintf(port->base.driver, sizeof port->base.driver, "pcap");
    memcpy(port->base.mac, config->address->src_mac, 6);
    port->base.mtu_bytes = FRAME_SIZE_MAX - 18;
    port->base.room = (uint32_t)port->stride;
    return &port->base;
}

static unsigned pcap_tx_acquire(struct io_port *base, struct io_frame *frames, unsigned count,
                                uint32_t length)
{
    const struct pcap_port *port = (const struct pcap_port *)base;
    return io_acquire_row(port->tx_buffers, port->stride, frames, count, length);
}

static unsigned pcap_tx_send(struct io_port *base, struct io_frame *frames, unsigned count)
{
    struct pcap_port *port = (struct pcap_port *)base;
    struct timespec now;

    if (port->out == NULL)
        return count;
    clock_gettime(CLOCK_REALTIME, &now);
    for (unsigned i = 0; i < count; i++) {
        const uint32_t record[4] = {(uint32_t)now.tv_sec, (uint32_t)now.tv_nsec, frames[i].length,
                                    frames[i].length};
        if (fwrite(record, sizeof record, 1, port->out) != 1 ||
            fwrite(frames[i].data, frames[i].length, 1, port->out) != 1) {
            snprintf(base->failure, sizeof base->failure,
                     "cannot write, the file is not complete: %s", strerror(errno));
            return i;
        }
    }
    return count;
}

static void pcap_flush(struct io_port *base)
{
    struct pcap_port *port = (struct pcap_port *)base;

    if (port->out != NULL && base->failure[0] == '\0' && fflush(port->out) != 0)
        snprintf(base->failure, sizeof base->failure, "cannot write, the file is not complete: %s",
                 strerror(errno));
}

static struct io_frame copy_of(const struct pcap_port *port, const struct pcap_frame *frame,
                               unsigned index)
{
    uint8_t *copy = port->rx_buffers + index * port->stride;

    memcpy(copy, frame->data, frame->length);
    return (struct io_frame){.data = copy, .length = frame->length};
}

/* Roles write into received frames, and the next trial must read the same file: roles get copies,
 * in buffers for the longest configured frame. Longer frames are dropped and counted. */
static unsigned pcap_rx_burst(struct io_port *base, struct io_frame *frames, unsigned count)
{
    struct pcap_port *port = (struct pcap_port *)base;
    struct pcap_frame frame;
    char ignored[160];
    unsigned got = 0;

    if (base->trial == 0)
        base->ended = false; /* for the next trial the file is not at its end */
    if (port->bytes == NULL || base->trial == 0)
        return 0;
    if (base->trial != port->trial) { /* every trial reads the whole file */
        port->trial = base->trial;
        port->reader.at = PCAP_HEADER_BYTES;
    }
    while (got < count && !base->ended) {
        if (pcap_next(&port->reader, &frame, ignored, sizeof ignored) != PCAP_FRAME) {
            base->ended = true;
        } else if (frame.length > port->longest) {
            port->too_long++;
        } else {
            frames[got] = copy_of(port, &frame, got);
            got++;
        }
    }
    return got;
}

static uint64_t pcap_rx_drops(struct io_port *base)
{
    return ((struct pcap_port *)base)->too_long;
}

static const struct io_ops io_pcap = {
    .name = "pcap",
    .summary = "files in place of a wire",
    .keys =
        "write=FILE stores sent frames (pcap, ns), read=FILE has the frames that arrive: the whole "
        "file once in every trial, as fast as the role reads; then a role that only receives "
        "ends (reason replayed)",
    .privileges = "dac_override", /* files of the user, not of root */
    .capabilities = IO_NO_PEER | IO_UNTIMED,
    .check = pcap_check,
    .open = pcap_open,
    .tx_acquire = pcap_tx_acquire,
    .tx_send = pcap_tx_send,
    .tx_release = io_release_nothing,
    .rx_burst = pcap_rx_burst,
    .rx_release = io_release_nothing,
    .flush = pcap_flush,
    .rx_drops = pcap_rx_drops,
    .close = pcap_close,
};

IO_BACKEND(io_pcap);
