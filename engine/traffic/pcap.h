/* A parser of classic pcap files: both byte orders, micro- and nanoseconds, Ethernet. It works on a
 * file in memory and trusts none of its content. pcapng and other link layers are refused with the
 * command that converts them. */
#ifndef SM_PCAP_H
#define SM_PCAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PCAP_HEADER_BYTES 24
#define PCAP_RECORD_BYTES 16
#define PCAP_MAGIC_NS 0xa1b23c4dU
#define PCAP_ETHERNET 1
#define PCAP_FRAME_MAX 262144 /* maximum of capture programs */

struct pcap_reader {
    uint8_t *bytes;
    size_t size, at; /* `at`: offset of the next record */
    bool swapped;
    uint32_t fraction_ns; /* nanoseconds per unit of the fraction */
    uint32_t fcs_bytes;   /* FCS at the end of each frame, which is left out */
    uint64_t frames;      /* number of frames read so far */
};

struct pcap_frame {
    uint8_t *data; /* in the bytes of the reader */
    uint32_t length;
    uint32_t wire_length; /* longer if the capture has cut the frame; both without FCS */
    uint64_t time_ns;
};

enum pcap_state { PCAP_FRAME, PCAP_END, PCAP_CUT, PCAP_BAD };

/* Begin to read; on failure `error` has the kind of file and the remedy. */
bool pcap_begin(struct pcap_reader *reader, uint8_t *bytes, size_t size, char *error,
                size_t error_size);

/* Read the next frame. PCAP_CUT: the file ends inside a record; PCAP_BAD: `error` has the place of
 * the error. Both results are final. */
enum pcap_state pcap_next(struct pcap_reader *reader, struct pcap_frame *frame, char *error,
                          size_t error_size);

/* Open a file to load it; -1 and one line in `error`. Opening is separate from loading, so that the
 * engine can give up its privileges in between. */
int pcap_open_file(const char *path, char *error, size_t error_size);

/* Return a whole file in memory (free it), or NULL and one line in `error`. Closes `fd`; for -1 it
 * writes no message, because opening has written one. */
uint8_t *pcap_load(int fd, size_t *size, char *error, size_t error_size);
#endif
