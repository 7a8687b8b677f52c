/* Loads a file of frames and returns them for sending. */
#include "traffic/replay.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"
#include "traffic/pcap.h"

/* Add a frame; false (message in `error`) if it cannot be sent. */
static bool take(struct replay *replay, const struct pcap_frame *frame, uint64_t first_ns,
                 char *error, size_t size)
{
    const unsigned long long number = replay->count + 1;
    uint64_t time_ns = frame->time_ns > first_ns ? frame->time_ns - first_ns : 0;

    if (frame->length < frame->wire_length)
        return fail(error, size,
                    "frame %llu was cut to %u of %u bytes; capture whole frames (tcpdump -s 0)",
                    number, frame->length, frame->wire_length);
    if (frame->length < IO_HEADER_BYTES || frame->length > FRAME_LENGTH_MAX)
        return fail(error, size,
                    "frame %llu has %u bytes, not %d to %d; leave it out (editcap -F pcap FILE NEW "
                    "%llu)%s",
                    number, frame->length, IO_HEADER_BYTES, FRAME_LENGTH_MAX, number,
                    frame->length > FRAME_LENGTH_MAX
                        ? ", or capture with gro, gso and tso off (ethtool -K DEVICE)"
                        : "");
    /* Captures from several queues are not always in order: a frame never leaves before the
     * previous frame. */
    if (replay->count > 0 && time_ns < replay->frames[replay->count - 1].time_ns)
        time_ns = replay->frames[replay->count - 1].time_ns;
    replay->frames[replay->count++] = (struct replay_frame){
        .time_ns = time_ns,
        .offset = (uint32_t)(frame->data - replay->bytes),
        .length = frame->length,
    };
    /* A wire has no frame below the minimum size, even if it is shorter in the file. */
    const uint32_t frame_size = frame->length + FCS_BYTES;
    replay->total_bytes += frame_size > FRAME_SIZE_MIN ? frame_size : FRAME_SIZE_MIN;
    if (frame->length > replay->longest)
        replay->longest = frame->length;
    const uint32_t beside =
        io_bytes_outside_mtu(load16(frame->data + OFFSET_ETHERTYPE) == WIRE_VLAN);
    if (frame->length > beside && frame->length - beside > replay->mtu_bytes) {
        replay->mtu_bytes = frame->length - beside;
        replay->mtu_frame = number;
    }
    return true;
}

static bool take_all(struct replay *replay, size_t file_size, char *error, size_t size)
{
    struct pcap_reader reader;
    struct pcap_frame frame;
    enum pcap_state state;
    uint64_t first_ns = 0;

    if (!pcap_begin(&reader, replay->bytes, file_size, error, size))
        return false;
    replay->frames = malloc((file_size / PCAP_RECORD_BYTES + 1) * sizeof *replay->frames);
    if (replay->frames == NULL)
        return fail(error, size, "no memory for its frames");
    while ((state = pcap_next(&reader, &frame, error, size)) == PCAP_FRAME) {
        if (replay->count == 0)
            first_ns = frame.time_ns;
        if (!take(replay, &frame, first_ns, error, size))
            return false;
    }
    if (state == PCAP_BAD)
        return false;
    if (replay->count == 0)
        return fail(error, size, "holds no frame");
    if (state == PCAP_CUT)
        fprintf(stderr,
                "switchmark-traffic: the file ends inside a frame; %llu whole ones are sent\n",
                (unsigned long long)replay->count);
    return true;
}

/* The next round begins after the last frame with the average distance of frames. */
static uint64_t round_length_ns(const struct replay *replay)
{
    const uint64_t last_ns = replay->frames[replay->count - 1].time_ns;
    return replay->count > 1 ? last_ns + last_ns / (replay->count - 1) : 0;
}

int replay_open(const char *path, char *error, size_t size)
{
    char reason[240] = "";
    const int fd = pcap_open_file(path, reason, sizeof reason);

    if (fd < 0)
        snprintf(error, size, "--replay: %s %s", path, reason);
    return fd;
}

bool replay_load(struct replay *replay, int fd, const char *path, char *error, size_t size)
{
    char reason[240] = "";
    size_t file_size;

    memset(replay, 0, sizeof *replay);
    replay->bytes = pcap_load(fd, &file_size, reason, sizeof reason);
    if (replay->bytes != NULL && file_size > UINT32_MAX)
        snprintf(reason, sizeof reason, "is larger than 4 GiB; take a part: editcap -r");
    else if (replay->bytes != NULL && take_all(replay, file_size, reason, sizeof reason)) {
        replay->length_ns = round_length_ns(replay);
        return true;
    }
    snprintf(error, size, "--replay: %s %s", path, reason);
    replay_free(replay);
    return false;
}

void replay_free(struct replay *replay)
{
    free(replay->bytes);
    free(replay->frames);
    memset(replay, 0, sizeof *replay);
}

/* Offset of the UDP payload of a frame that has room for a stamp, otherwise 0. */
static uint32_t payload_offset(const uint8_t *f, uint32_t length)
{
    struct frame_layout at;

    if (!frame_parse(f, length, &at))
        return 0;
    const uint32_t udp_length = ntohs(load16(f + at.udp + 4));
    const uint32_t ip_length = ntohs(load16(f + at.ip + (at.ip6 ? 4 : 2)));
    const bool fits = udp_length >= 8 + STAMP_BYTES && at.udp + udp_length <= length &&
                      ip_length == udp_length + (at.ip6 ? 0 : 20);
    return fits ? at.udp + 8 : 0;
}

/* The properties of a frame that a receiver needs to measure it. */
struct stamped_kind {
    bool ip6;
    unsigned tags;
    uint16_t types[TAGS_MAX], vlan[TAGS_MAX];
};

static struct stamped_kind kind_of(const uint8_t *f, const struct frame_layout *at)
{
    struct stamped_kind kind = {.ip6 = at->ip6, .tags = (at->ip - OFFSET_IP) / TAG_BYTES};

    for (unsigned i = 0; i < kind.tags; i++) {
        kind.types[i] = load16(f + OFFSET_ETHERTYPE + TAG_BYTES * i);
        kind.vlan[i] = ntohs(load16(f + OFFSET_ETHERTYPE + TAG_BYTES * i + 2)) & 0xfff;
    }
    return kind;
}

/* "IPv4 with VLAN 200.100" */
static const char *kind_text(const struct stamped_kind *kind, char *text, size_t size)
{
    const char *version = kind->ip6 ? "IPv6" : "IPv4";

    if (kind->tags == 0)
        snprintf(text, size, "%s without a tag", version);
    else if (kind->tags == 1)
        snprintf(text, size, "%s with VLAN %u", version, kind->vlan[0]);
    else
        snprintf(text, size, "%s with VLAN %u.%u", version, kind->vlan[0], kind->vlan[1]);
    return text;
}

/* Receivers recognise one tag as 802.1Q, and of two tags the outer as 802.1ad. */
static bool tags_are_usual(const struct stamped_kind *kind)
{
    const unsigned last = kind->tags - 1;

    return kind->tags == 0 ||
           (kind->types[last] == WIRE_VLAN && (last == 0 || kind->types[0] == WIRE_SERVICE));
}

/* A receiver measures frames of one kind, and counts all others as other frames. */
static bool is_one_kind(const struct stamped_kind *first, const struct stamped_kind *kind,
                        uint64_t number, char *error, size_t size)
{
    char text[48], first_text[48];

    if (!tags_are_usual(kind))
        return fail(error, size,
                    "--stamp: frame %llu has VLAN tags of types that no receiver measures (802.1Q, "
                    "or 802.1ad outside and 802.1Q inside); leave --stamp out, or filter the file",
                    (unsigned long long)number);
    if (kind->ip6 == first->ip6 && kind->tags == first->tags &&
        (kind->tags < 2 || kind->vlan[0] == first->vlan[0]))
        return true;
    return fail(error, size,
                "--stamp: frame %llu is %s, the first is %s; a receiver measures one kind: leave "
                "--stamp out, or filter the file",
                (unsigned long long)number, kind_text(kind, text, sizeof text),
                kind_text(first, first_text, sizeof first_text));
}

/* Print the VLAN IDs of a stream as the lowest ID and their number, as receivers need them. */
static void say_vlans(uint16_t lowest, uint16_t highest)
{
    if (lowest < highest)
        fprintf(stderr,
                "switchmark-traffic: --stamp: the file has VLANs %u to %u; a receiver needs --vlan "
                "%u --flows %u:vlan\n",
                lowest, highest, lowest, highest - lowest + 1U);
}

bool replay_stamp_all(struct replay *replay, uint16_t stream, char *error, size_t size)
{
    struct stamped_kind first = {0};
    uint16_t lowest = UINT16_MAX, highest = 0;

    for (uint64_t i = 0; i < replay->count; i++) {
        struct replay_frame *frame = &replay->frames[i];
        uint8_t *f = replay->bytes + frame->offset;
        struct frame_layout at;
        frame->payload = payload_offset(f, frame->length);
        if (frame->payload == 0 || !frame_parse(f, frame->length, &at))
            return fail(
                error, size,
                "--stamp: frame %llu is not UDP over IPv4 or IPv6 with %d bytes of payload; "
                "leave --stamp out, or filter the file",
                (unsigned long long)i + 1, STAMP_BYTES);
        const struct stamped_kind kind = kind_of(f, &at);
        if (i == 0)
            first = kind;
        if (!is_one_kind(&first, &kind, i + 1, error, size))
            return false;
        if (kind.tags > 0) {
            const uint16_t vlan = kind.vlan[kind.tags - 1];
            lowest = vlan < lowest ? vlan : lowest;
            highest = vlan > highest ? vlan : highest;
        }
        uint8_t *payload = f + frame->payload, *ip = f + at.ip;
        memset(payload, 0, ntohs(load16(payload - 4)) - 8U);
        payload[0] = FRAME_SIGNATURE;
        store16(payload + 2, htons(stream));
        if (!at.ip6) {
            store16(ip + 10, 0);
            store16(ip + 10, (uint16_t)~sum_fold(sum_bytes(ip, 20)));
        }
    }
    say_vlans(lowest, highest);
    return true;
}

bool replay_repeats(const struct replay *replay, uint64_t loops, char *error, size_t size)
{
    if (loops == 1 || replay->length_ns > 0)
        return true;
    return fail(error, size,
                "--schedule recorded: all frames of the file are of one moment, which cannot be "
                "repeated; give --rate");
}

void replay_set_epoch(struct replay *replay, unsigned epoch)
{
    for (uint64_t i = 0; i < replay->count; i++) {
        struct replay_frame *frame = &replay->frames[i];
        uint8_t *f = replay->bytes + frame->offset;
        struct frame_layout at;
        if (frame->payload == 0 || !frame_parse(f, frame->length, &at))
            continue;
        const uint8_t *udp = f + at.udp;
        const uint32_t addresses = at.ip6 ? 32 : 8; /* the addresses are right in front of it */
        f[frame->payload + 1] = (uint8_t)(FRAME_DATA << 4 | (epoch & 15));
        frame->stamp_sum = sum_bytes(udp - addresses, addresses) + htons(17) + load16(udp + 4) +
                           sum_bytes(udp, 6) + load32(udp + 8);
    }
}

uint64_t replay_time_ns(const struct replay *replay, uint64_t index)
{
    return index / replay->count * replay->length_ns +
           replay->frames[index % replay->count].time_ns;
}

uint64_t replay_before(const struct replay *replay, uint64_t time_ns)
{
    const uint64_t rounds = replay->length_ns > 0 ? time_ns / replay->length_ns : 0;
    const uint64_t within_ns = time_ns - rounds * replay->length_ns;
    uint64_t low = 0, high = replay->count;

    while (low < high) { /* the first frame that is due at that time or later */
        const uint64_t middle = low + (high - low) / 2;
        if (replay->frames[middle].time_ns < within_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return rounds * replay->count + low; /* the caller limits the rounds */
}

double replay_mean_frame_bytes(const struct replay *replay)
{
    return (double)replay->total_bytes / (double)replay->count;
}

static void stamp(const struct replay_frame *frame, uint8_t *f, uint32_t sequence,
                  const struct frame_times *times)
{
    uint8_t *payload = f + frame->payload;
    const uint32_t wire_sequence = __builtin_bswap32(sequence);

    store32(payload + 4, wire_sequence);
    store64(payload + 8, times->intended_lateness);
    store16(payload + 16, times->lateness_low);
    store16(payload - 2, udp_checksum(sum_fold(frame->stamp_sum + wire_sequence + times->sum)));
}

void replay_fill(const struct replay *replay, struct io_frame *frames, unsigned count,
                 uint64_t index, uint32_t sequence, const struct frame_times *times)
{
    uint64_t at = index % replay->count;

    for (unsigned i = 0; i < count; i++) {
        const struct replay_frame *frame = &replay->frames[at];
        memcpy(frames[i].data, replay->bytes + frame->offset, frame->length);
        frames[i].length = frame->length;
        if (frame->payload != 0)
            stamp(frame, frames[i].data, sequence + i, times);
        at = at + 1 == replay->count ? 0 : at + 1;
    }
}
