/* The list of roles. */
#include "role/role.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

const struct role *roles[ROLES_MAX + 1];

/* In the order of names, so that no text depends on the order in which files were linked. */
void role_register(const struct role *role)
{
    unsigned count = 0, position = 0;

    while (roles[count] != NULL)
        count++;
    while (position < count && strcmp(roles[position]->name, role->name) < 0)
        position++;
    if (position < count && strcmp(roles[position]->name, role->name) == 0)
        return;
    if (count == ROLES_MAX)
        abort();
    memmove(roles + position + 1, roles + position, (count - position) * sizeof *roles);
    roles[position] = role;
}
