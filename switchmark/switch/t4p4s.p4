/* Our layer 2 switch for t4p4s: one table from destination address to port, the rest dropped.
 *
 * The bench's addresses of ports 0 to 15 stand in it, so that one compiled program serves every
 * trial and no controller is needed. No source addresses are learnt: t4p4s stalls a second for
 * each that it does not know. Compile it with t4p4s (docs/switches.md) for as many DPDK ports
 * as you like; an address of a port that is not there must not be sent to.
 */

#include "common-boilerplate-pre.p4"

struct metadata { }

struct headers {
    ethernet_t ethernet;
}

PARSER {
    state start {
        packet.extract(hdr.ethernet);
        transition accept;
    }
}

CTL_MAIN {
    action forward(PortId_t port) {
        SET_EGRESS_PORT(port);
    }

    action discard() {
        MARK_TO_DROP();
    }

    table destination {
        actions = {
            forward;
            discard;
        }
        key = {
            hdr.ethernet.dstAddr: exact;
        }
        size = 64;
        const default_action = discard();
        const entries = {
            (48w0x02534d000001): forward(0);
            (48w0x02534d000002): forward(1);
            (48w0x02534d000101): forward(2);
            (48w0x02534d000102): forward(3);
            (48w0x02534d000201): forward(4);
            (48w0x02534d000202): forward(5);
            (48w0x02534d000301): forward(6);
            (48w0x02534d000302): forward(7);
            (48w0x02534d000401): forward(8);
            (48w0x02534d000402): forward(9);
            (48w0x02534d000501): forward(10);
            (48w0x02534d000502): forward(11);
            (48w0x02534d000601): forward(12);
            (48w0x02534d000602): forward(13);
            (48w0x02534d000701): forward(14);
            (48w0x02534d000702): forward(15);
        }
    }

    apply {
        destination.apply();
    }
}

CTL_EMIT {
    apply {
        packet.emit(hdr.ethernet);
    }
}

#include "common-boilerplate-post.p4"
