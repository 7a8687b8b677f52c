/* Outer headers and tags of arbitrary frames: an opened frame lies inside the received frame, and a
 * comparison reads nothing beyond it. The first byte chooses what is expected; the rest is the
 * frame, in a buffer of exactly its length. */
#include "fuzz.h"

#include "traffic/expectation.h"

#define ROWS 3

static struct row_table table, tunnels;

static void load(struct row_table *t, uint32_t row_bytes)
{
    static const uint8_t rows[ROWS * ROW_BYTES_IP6];
    const struct row_table_plan plan = {.rows = ROWS};
    char error[160];

    must(row_table_begin(t, &plan, row_bytes, error, sizeof error));
    must(row_table_add(t, rows, (size_t)ROWS * row_bytes, 0, error, sizeof error));
}

/* Bits 0: VXLAN, 1: tags, 2: VLAN 7 instead of none, 3: IPv6, 4: a table, 5: tunnels. */
static void check(uint8_t kind, const struct io_frame *frame)
{
    const bool ip6 = kind & 8;
    const struct frame_layout layout = {.ip = 14, .udp = ip6 ? 54 : 34, .ip6 = ip6};
    const struct expected_headers headers = {.decap = kind & 1,
                                             .vlan_given = kind & 2,
                                             .vlan = kind & 4 ? 7 : 0,
                                             .ttl_given = true,
                                             .dscp_given = true,
                                             .next_hop_count = 1,
                                             .src_mac_given = true};
    struct expectation expectation = {.headers = &headers,
                                      .table = kind & 16 ? &table : NULL,
                                      .tunnels = kind & 1 && kind & 32 ? &tunnels : NULL,
                                      .used = true};

    load(&table, ip6 ? ROW_BYTES_IP6 : ROW_BYTES_IP4);
    const struct opened_frame opened = expectation_open(&expectation, frame);
    must(opened.frame.data >= frame->data && opened.ethernet >= frame->data);
    must(opened.frame.data + opened.frame.length <= frame->data + frame->length);
    must(opened.counted <= frame->length && opened.frame.length <= opened.counted);
    must((opened.outer != NULL) <= headers.decap);
    if (opened.frame.length < layout.udp + 8 + STAMP_BYTES)
        return;
    const uint32_t wrong = expectation_check(&expectation, &opened, &layout, UINT64_MAX);
    must(wrong >> WRONG_FIELDS_COUNT == 0 && (wrong & opened.wrong) == opened.wrong);
    expectation_note(&expectation, wrong, frame);
    must(expectation.sample_length <= frame->length);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    const uint8_t kind = input_byte(&in);
    uint8_t *bytes = malloc(in.left > 0 ? in.left : 1);

    must(bytes != NULL);
    if (tunnels.count == 0)
        load(&tunnels, TUNNEL_ROW_BYTES);
    memcpy(bytes, in.at, in.left);
    check(kind, &(struct io_frame){.data = bytes, .length = (uint32_t)in.left});
    free(bytes);
    return 0;
}
