/* Lists the roles and backends of this build, and the reasons for missing backends. */
#include "subcommands/list.h"

#include <stdio.h>
#include <unistd.h>

#include "io/io.h"
#include "report/json.h"
#include "role/role.h"
#include "traffic/header_fields.h"
#include "version.h"

static bool print_text(void)
{
    printf("switchmark-traffic %s\n\nRoles:\n", engine_version);
    for (unsigned i = 0; roles[i] != NULL; i++)
        printf("  %-12s %s\n", roles[i]->name, roles[i]->summary);
    printf("\nBackends:\n");
    for (unsigned i = 0; io_backends[i] != NULL; i++) {
        const struct io_ops *ops = io_backends[i];
        printf("  %-12s %s%s%s\n", ops->name, ops->summary, ops->version != NULL ? "; " : "",
               ops->version != NULL ? ops->version() : "");
    }
    if (io_missing[0] != NULL)
        printf("\nNot in this build:\n");
    for (unsigned i = 0; io_missing[i] != NULL; i++)
        printf("  %-12s %s\n", io_missing[i]->name, io_missing[i]->missing);
    return true;
}

/* Properties of a backend that are equal in every build; the bench generates its table of I/O from
 * them. */
static void describe(struct json *j, const struct io_ops *ops)
{
    json_string(j, "summary", ops->summary);
    json_string(j, "keys", ops->keys);
    json_bool(j, "datagrams", (ops->capabilities & IO_DATAGRAMS) != 0);
    json_list(j, "io");
    for (const struct io_variant *v = ops->variants; v != NULL && v->name != NULL; v++) {
        json_object(j, NULL);
        json_string(j, "name", v->name);
        json_string(j, "meaning", v->meaning);
        json_string(j, "arguments", v->arguments);
        json_string(j, "timed", v->timed);
        json_string(j, "container", v->container);
        json_end_object(j);
    }
    json_end_list(j);
}

static bool print_json(void)
{
    struct json j = {0};

    json_begin(&j);
    json_string(&j, "engine_version", engine_version);
    json_list(&j, "roles");
    for (unsigned i = 0; roles[i] != NULL; i++) {
        json_object(&j, NULL);
        json_string(&j, "name", roles[i]->name);
        json_string(&j, "summary", roles[i]->summary);
        json_unsigned(&j, "ports", roles[i]->ports);
        json_end_object(&j);
    }
    json_end_list(&j);
    json_list(&j, "backends");
    for (unsigned i = 0; io_backends[i] != NULL; i++) {
        const struct io_ops *ops = io_backends[i];
        json_object(&j, NULL);
        json_string(&j, "name", ops->name);
        describe(&j, ops);
        json_unsigned(&j, "queues_max", ops->queues_max > 0 ? ops->queues_max : 1);
        json_string(&j, "version", ops->version != NULL ? ops->version() : NULL);
        json_end_object(&j);
    }
    json_end_list(&j);
    json_list(&j, "header_fields");
    for (unsigned i = 0; i < header_field_count; i++) {
        json_object(&j, NULL);
        json_string(&j, "name", header_fields[i].name);
        json_string(&j, "layer", header_layer_names[header_fields[i].layer]);
        json_unsigned(&j, "bits", header_fields[i].bits);
        json_end_object(&j);
    }
    json_end_list(&j);
    json_list(&j, "missing");
    for (unsigned i = 0; io_missing[i] != NULL; i++) {
        json_object(&j, NULL);
        json_string(&j, "name", io_missing[i]->name);
        json_string(&j, "reason", io_missing[i]->missing);
        describe(&j, io_missing[i]);
        json_end_object(&j);
    }
    json_end_list(&j);
    const bool written = json_write(&j, STDOUT_FILENO);
    json_free(&j);
    return written;
}

bool list_print(bool as_json)
{
    return as_json ? print_json() : print_text();
}
