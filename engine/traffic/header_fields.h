/* The one table of header fields: name, layer, place, width, and the checksums that include the
 * field. Modifiers, receivers and the bench use it. */
#ifndef SM_HEADER_FIELDS_H
#define SM_HEADER_FIELDS_H

#include <stdbool.h>
#include <stdint.h>

struct frame_address;

/* The fields that may be wrong, and their names in the result. */
#define WRONG_FIELDS(X)                                                                            \
    X(next_hop)                                                                                    \
    X(src_mac)                                                                                     \
    X(vlan)                                                                                        \
    X(ttl)                                                                                         \
    X(dscp)                                                                                        \
    X(src_ip)                                                                                      \
    X(dst_ip)                                                                                      \
    X(src_port)                                                                                    \
    X(dst_port)                                                                                    \
    X(vni)                                                                                         \
    X(outer_src_ip)                                                                                \
    X(outer_dst_ip)                                                                                \
    X(outer_header)                                                                                \
    X(dst_mac)                                                                                     \
    X(pcp)                                                                                         \
    X(dei)                                                                                         \
    X(ecn)                                                                                         \
    X(id)                                                                                          \
    X(df)                                                                                          \
    X(flow_label)

enum wrong_field {
#define WRONG_ENUM(name) WRONG_##name,
    WRONG_FIELDS(WRONG_ENUM)
#undef WRONG_ENUM
        WRONG_FIELDS_COUNT
};

enum header_layer {
    LAYER_ETHERNET,
    LAYER_SERVICE_TAG, /* 802.1ad, the outer of two tags */
    LAYER_TAG,         /* 802.1Q */
    LAYER_IPV4,
    LAYER_IPV6,
    LAYER_UDP,
    LAYER_OUTER_ETHERNET,
    LAYER_OUTER_IPV4,
    LAYER_OUTER_UDP,
    LAYER_VXLAN,
    HEADER_LAYERS
};

/* The checksums that include a field, except that of the outer header, which is summed as a whole.
 */
enum header_sums { SUMS_NONE, SUMS_IP, SUMS_UDP, SUMS_BOTH };

enum header_format { FORMAT_NUMBER, FORMAT_MAC, FORMAT_IPV4, FORMAT_IPV6 };

/* A field lies in a window of eight bytes, or of two such windows if it has 128 bits. The window
 * begins at an even offset, so that its words count in checksums as they are. */
struct header_field {
    const char *name;
    enum header_layer layer;
    uint8_t offset;    /* where the window begins in the header of the layer */
    uint8_t first_bit; /* bits of the window in front of the field */
    uint8_t bits;
    enum header_sums sums;
    enum header_format format;
    enum wrong_field wrong; /* counter of the receiver */
};

extern const struct header_field header_fields[];
extern const unsigned header_field_count;

extern const char *const header_layer_names[HEADER_LAYERS];

/* Return the offset of a layer in its part of a frame (enum header_part), or -1 if frames with this
 * address do not have the layer. */
enum header_part { PART_ETHERNET, PART_IP, PART_OUTER, HEADER_PARTS };
int header_layer_offset(enum header_layer layer, const struct frame_address *address,
                        bool has_outer, enum header_part *part);
#endif
