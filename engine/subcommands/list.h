/* The subcommand `list`: the features of this build. */
#ifndef SM_SUBCOMMANDS_LIST_H
#define SM_SUBCOMMANDS_LIST_H

#include <stdbool.h>

/* Print the roles, the compiled backends, and the reasons for missing backends, as text or as one
 * JSON object. */
bool list_print(bool as_json);
#endif
