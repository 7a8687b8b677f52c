/* Parses pcap files. */
#include "traffic/pcap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fail.h"
#include "measure/memory.h"

#define MAGIC_US 0xa1b2c3d4U
#define MAGIC_MODIFIED 0xa1b2cd34U /* longer record headers, of an old patched libpcap */
#define MAGIC_NG 0x0a0d0d0aU       /* the same number in both byte orders */
#define FCS_IS_THERE                                                                               \
    0x04000000U /* in the link type; then bits 28 to 31 are the length of the FCS in 16-bit words  \
                 */

static uint32_t read32(const struct pcap_reader *r, size_t at)
{
    uint32_t value;
    memcpy(&value, r->bytes + at, sizeof value);
    return r->swapped ? __builtin_bswap32(value) : value;
}

/* The program that compressed a file with these first four bytes. */
static const char *compressed_by(uint32_t begin)
{
    return begin >> 16 == 0x1f8b    ? "gzip"
           : begin >> 8 == 0x425a68 ? "bzip2"
           : begin == 0xfd377a58    ? "xz"
           : begin == 0x28b52ffd    ? "zstd"
                                    : NULL;
}

static bool read_magic(struct pcap_reader *r, char *error, size_t size)
{
    const uint32_t magic = read32(r, 0), other = __builtin_bswap32(magic);

    r->swapped = other == MAGIC_US || other == PCAP_MAGIC_NS;
    if (r->swapped || magic == MAGIC_US || magic == PCAP_MAGIC_NS) {
        r->fraction_ns = (r->swapped ? other : magic) == MAGIC_US ? 1000 : 1;
        return true;
    }
    if (magic == MAGIC_NG || magic == MAGIC_MODIFIED || other == MAGIC_MODIFIED)
        snprintf(error, size, "is %s, not pcap; convert it: editcap -F pcap FILE NEW",
                 magic == MAGIC_NG ? "pcapng" : "a modified pcap");
    else if (compressed_by(__builtin_bswap32(magic)) != NULL)
        snprintf(error, size, "is compressed; unpack it: %s -k -d FILE",
                 compressed_by(__builtin_bswap32(magic)));
    else
        snprintf(error, size, "is not a pcap file (it begins with %08x)", __builtin_bswap32(magic));
    return false;
}

/* The link types of captures on Linux's device `any`. */
static bool is_any_device(uint32_t link)
{
    return link == 113 || link == 276;
}

bool pcap_begin(struct pcap_reader *r, uint8_t *bytes, size_t length, char *error, size_t size)
{
    *r = (struct pcap_reader){.bytes = bytes, .size = length, .at = PCAP_HEADER_BYTES};
    if (length < PCAP_HEADER_BYTES)
        return fail(error, size, "is not a pcap file: %zu bytes are too few", length);
    if (!read_magic(r, error, size))
        return false;
    const uint32_t versions = read32(r, 4), link = read32(r, 20);
    if ((r->swapped ? versions >> 16 : versions & 0xffff) != 2)
        return fail(error, size,
                    "is of an unknown pcap version; convert it: editcap -F pcap FILE NEW");
    if ((link & 0xffff) != PCAP_ETHERNET)
        return fail(
            error, size, "holds frames of link type %u, not Ethernet (1); %s", link & 0xffff,
            is_any_device(link & 0xffff) ? "capture on one device (tcpdump -i DEVICE), not on all"
                                         : "capture on an Ethernet device");
    if ((link & FCS_IS_THERE) != 0)
        r->fcs_bytes = (link >> 28) * 2;
    return true;
}

enum pcap_state pcap_next(struct pcap_reader *r, struct pcap_frame *frame, char *error, size_t size)
{
    const size_t left = r->size - r->at;

    if (left == 0)
        return PCAP_END;
    if (left < PCAP_RECORD_BYTES)
        return PCAP_CUT;
    const uint32_t captured = read32(r, r->at + 8), wire = read32(r, r->at + 12);
    if (captured > PCAP_FRAME_MAX || captured > wire || captured < r->fcs_bytes) {
        snprintf(error, size, "is broken at byte %zu: frame %llu claims %u captured of %u bytes",
                 r->at, (unsigned long long)r->frames + 1, captured, wire);
        return PCAP_BAD;
    }
    if (captured > left - PCAP_RECORD_BYTES)
        return PCAP_CUT;
    frame->time_ns =
        read32(r, r->at) * 1000000000ULL + (uint64_t)read32(r, r->at + 4) * r->fraction_ns;
    frame->data = r->bytes + r->at + PCAP_RECORD_BYTES;
    frame->wire_length = wire - r->fcs_bytes;
    /* If the capture has cut the frame, the FCS, or its end, is in the missing part. */
    frame->length = captured < frame->wire_length ? captured : frame->wire_length;
    r->at += PCAP_RECORD_BYTES + captured;
    r->frames++;
    return PCAP_FRAME;
}

static bool read_all(int fd, uint8_t *bytes, size_t size)
{
    for (size_t done = 0; done < size;) {
        const ssize_t n = read(fd, bytes + done, size - done);
        if (n <= 0)
            return false;
        done += (size_t)n;
    }
    return true;
}

int pcap_open_file(const char *path, char *error, size_t error_size)
{
    const int fd =
        open(path, O_RDONLY | O_CLOEXEC |
                       O_NONBLOCK); /* without O_NONBLOCK it would not return for a pipe */

    if (fd < 0)
        snprintf(error, error_size, "%s", strerror(errno));
    return fd;
}

uint8_t *pcap_load(int fd, size_t *size, char *error, size_t error_size)
{
    struct stat status;
    uint8_t *bytes = NULL;

    *size = 0;
    if (fd < 0)
        return NULL;
    if (fstat(fd, &status) != 0) {
        snprintf(error, error_size, "%s", strerror(errno));
    } else if (!S_ISREG(status.st_mode)) {
        snprintf(error, error_size, "is not a regular file");
    } else if (!memory_suffices((uint64_t)status.st_size, "", error, error_size)) {
        ; /* open has reported the error */
    } else if ((bytes = malloc((size_t)status.st_size + 1)) == NULL) {
        snprintf(error, error_size, "no memory for its %lld bytes", (long long)status.st_size);
    } else if (!read_all(fd, bytes, (size_t)status.st_size)) {
        snprintf(error, error_size, "cannot be read to its end");
        free(bytes);
        bytes = NULL;
    }
    close(fd);
    *size = bytes != NULL ? (size_t)status.st_size : 0;
    return bytes;
}
