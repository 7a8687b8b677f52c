/* Our cross-connect for t4p4s: what comes in by one port of a pair leaves by the other, whatever
 * it says. Ports are in pairs 0 and 1, 2 and 3 ...; nothing is looked up and no controller is needed.
 *
 * (A table with the port of entry as its key, as one would write it elsewhere, matched nothing
 * once t4p4s had compiled it.) Compile it as t4p4s.p4 beside it (docs/switches.md).
 */

#include "common-boilerplate-pre.p4"

struct metadata { }

struct headers {
    ethernet_t ethernet;
}

PARSER {
    state start {
        transition accept;
    }
}

CTL_MAIN {
    action to_other_end() {
        SET_EGRESS_PORT(GET_INGRESS_PORT() ^ 1);
    }

    apply {
        to_other_end();
    }
}

CTL_EMIT {
    apply {
        packet.emit(hdr.ethernet);
    }
}

#include "common-boilerplate-post.p4"
