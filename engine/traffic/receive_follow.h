/* Frames that follow a verified frame: all bytes up to the end of the stamp are equal, except for
 * the next sequence number and the resulting checksum. They need no further check. Only for
 * receive.c. */
#ifndef SM_RECEIVE_FOLLOW_H
#define SM_RECEIVE_FOLLOW_H

#include "io/io.h"
#include "traffic/frame.h"

/* The compared bytes, in pieces of eight bytes from the EtherType on: the checksum is in bytes 4
 * and 5 of the piece at 36, the sequence number in bytes 2 to 5 of the piece at 44. MAC addresses
 * are not compared, because routers and forwarders rewrite them. */
#define FOLLOW_PIECES 6
#define FOLLOW_CHECKSUM 3
#define FOLLOW_SEQUENCE 4

/* Return how many of the frames after `frames[0]`, an untouched plain frame that passed every
 * check, follow it. With one's complement sums the next checksum is simple: a number that is higher
 * by one increases the sum by one, regardless of carries, so the checksum decreases by one; 0 is
 * sent as all ones. This does not hold from the highest number to 0, so counting stops there. */
static inline unsigned follow(const struct io_frame *frames, unsigned count)
{
    const uint8_t *first = frames[0].data + OFFSET_ETHERTYPE;
    const uint32_t length = frames[0].length;
    uint64_t same[FOLLOW_PIECES];
    uint16_t checksum = __builtin_bswap16(load16(frames[0].data + OFFSET_UDP_CHECKSUM));
    uint32_t sequence = __builtin_bswap32(load32(frames[0].data + HEADERS_BYTES + 4));
    unsigned i;

    for (unsigned piece = 0; piece < FOLLOW_PIECES; piece++)
        same[piece] = load64(first + 8 * piece);
    same[FOLLOW_CHECKSUM] &= ~(0xffffULL << 32);
    same[FOLLOW_SEQUENCE] &= ~(0xffffffffULL << 16);
    for (i = 1; i < count && ++sequence != 0; i++) {
        const uint8_t *f = frames[i].data + OFFSET_ETHERTYPE;
        checksum = checksum == 1 ? 0xffff : (uint16_t)(checksum - 1);
        const uint64_t with_checksum = same[FOLLOW_CHECKSUM] | (uint64_t)__builtin_bswap16(checksum)
                                                                   << 32;
        const uint64_t with_sequence = same[FOLLOW_SEQUENCE] | (uint64_t)__builtin_bswap32(sequence)
                                                                   << 16;
        if (frames[i].length != length)
            break;
        if (((load64(f) ^ same[0]) | (load64(f + 8) ^ same[1]) | (load64(f + 16) ^ same[2]) |
             (load64(f + 24) ^ with_checksum) | (load64(f + 32) ^ with_sequence) |
             (load64(f + 40) ^ same[5])) != 0)
            break;
    }
    return i - 1;
}
#endif
