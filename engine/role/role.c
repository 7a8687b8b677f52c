/* The list of roles. */
#include "role/role.h"

#include <stddef.h>

const struct role *const roles[] = {
    &role_sender,    &role_receiver, &role_client, &role_server, &role_forwarder,
    &role_reference, &role_tester,   &role_duplex, NULL,
};
