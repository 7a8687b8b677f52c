/* A reader of classic pcap files: both byte orders, micro- and nanoseconds, Ethernet. It works on
 * a file that lies in memory and believes nothing that it reads. pcapng and other link layers are
 * refused with the command that converts them. */
#ifndef SM_PCAP_H
#define SM_PCAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PCAP_HEADER_BYTES 24
#define PCAP_RECORD_BYTES 16
#define PCAP_MAGIC_NS 0xa1b23c4dU
#define PCAP_ETHERNET 1
#define PCAP_FRAME_MAX 262144 /* what capture programs write at most */

struct pcap_reader {
    uint8_t *bytes;
    size_t size, at; /* `at`: of the next record */
    bool swapped;
    uint32_t fraction_ns; /* what one unit of the fraction is */
    uint32_t fcs_bytes;   /* at the end of each frame, not handed out */
    uint64_t frames;      /* handed out so far */
};

struct pcap_frame {
    uint8_t *data; /* in the reader's bytes */
    uint32_t length;
    uint32_t wire_length; /* longer when the capture has cut the frame; both without FCS */
    uint64_t time_ns;
};

enum pcap_state { PCAP_FRAME, PCAP_END, PCAP_CUT, PCAP_BAD };

/* Begin to read; on failure `error` says what the bytes are and what to do. */
bool pcap_begin(struct pcap_reader *reader, uint8_t *bytes, size_t size, char *error,
                size_t error_size);

/* The next frame. PCAP_CUT: the file ends inside a record; PCAP_BAD: `error` says where it is
 * broken. Both stay so. */
enum pcap_state pcap_next(struct pcap_reader *reader, struct pcap_frame *frame, char *error,
                          size_t error_size);

/* Open a file to load it; -1 and one line in `error`. (Apart from the loading, so that the rights
 * that opening takes can be given up before anything in it is looked at.) */
int pcap_open_file(const char *path, char *error, size_t error_size);

/* A whole file in memory (free it), or NULL and one line in `error`. Closes `fd`; of -1 nothing is
 * said, since the opening has. */
uint8_t *pcap_load(int fd, size_t *size, char *error, size_t error_size);
#endif
