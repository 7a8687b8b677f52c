/* A ninth role needs one file: its flags decide which options it takes. */
#include "options/options.h"
#include "role/role.h"
#include "tests/test.h"

#include <string.h>

static void run(struct trial *trial, unsigned worker)
{
    (void)trial;
    (void)worker;
}

static const struct role role_ninth = {
    .name = "ninth",
    .summary = "counts and times probes",
    .ports = 1,
    .tracks = true,
    .takes_probes = true,
    .run = run,
};

ROLE(role_ninth);

static const struct role role_impostor = {.name = "sender", .summary = "comes too late"};

static struct options o;
static char error[512];

static enum parse_result parse(char *option, char *value)
{
    char *arguments[] = {"switchmark-traffic", "ninth", "--port", "null:", option, value};

    return options_parse(&o, 6, arguments, error, sizeof error);
}

static void new_role_is_listed_in_order_of_names(void **state)
{
    (void)state;
    for (unsigned i = 1; roles[i] != NULL; i++)
        assert_true(strcmp(roles[i - 1]->name, roles[i]->name) < 0);
    assert_int_equal(parse("--burst", "1"), PARSE_OK);
    assert_ptr_equal(o.role, &role_ninth);
}

static void new_role_takes_options_of_its_flags(void **state)
{
    (void)state;
    assert_int_equal(parse("--probes", "1"), PARSE_OK);
    assert_int_equal(parse("--latency", "1"), PARSE_BAD);
    assert_non_null(strstr(error, "--latency: the role ninth does not take this option"));
    assert_int_equal(parse("--probe-rate", "1k"), PARSE_BAD);
    assert_non_null(strstr(error, "--probe-rate: the role ninth does not take this option"));
}

static void messages_list_new_role(void **state)
{
    char *arguments[] = {"switchmark-traffic", "sender", "--port", "null:", "--probes", "1"};

    (void)state;
    assert_int_equal(options_parse(&o, 6, arguments, error, sizeof error), PARSE_BAD);
    assert_non_null(strstr(error, "only duplex, ninth, receiver and server"));
}

static void first_role_keeps_its_name(void **state)
{
    (void)state;
    role_register(&role_impostor);
    for (unsigned i = 0; roles[i] != NULL; i++)
        assert_ptr_not_equal(roles[i], &role_impostor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(new_role_is_listed_in_order_of_names),
        cmocka_unit_test(new_role_takes_options_of_its_flags),
        cmocka_unit_test(messages_list_new_role),
        cmocka_unit_test(first_role_keeps_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
