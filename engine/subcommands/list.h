/* `switchmark-traffic list`: what this build can do. */
#ifndef SM_SUBCOMMANDS_LIST_H
#define SM_SUBCOMMANDS_LIST_H

#include <stdbool.h>

/* Roles, the backends compiled in, and why others are not; as text or one JSON object. */
bool list_print(bool as_json);
#endif
