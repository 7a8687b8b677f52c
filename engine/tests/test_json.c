/* The JSON writer: commas, escapes, numbers, one line at a time. */
#include "test.h"

#include <unistd.h>

#include "report/json.h"

static void json_line_has_commas_and_escapes(void **state)
{
    (void)state;
    struct json j = {0};
    char text[512] = "";
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    json_begin(&j);
    json_string(&j, "s", "a\"b\\c\n\x01é");
    json_unsigned(&j, "u", UINT64_MAX);
    json_signed(&j, "i", INT64_MIN);
    json_number(&j, "d", 0.5);
    json_number(&j, "nan", 0.0 / 0.0);
    json_bool(&j, "t", true);
    json_string(&j, "null", NULL);
    json_list(&j, "list");
    json_object(&j, NULL);
    json_end_object(&j);
    json_unsigned(&j, NULL, 1);
    json_end_list(&j);
    assert_true(json_write(&j, pipes[1]));
    assert_true(read(pipes[0], text, sizeof text - 1) > 0);
    assert_string_equal(text,
                        "{\"v\":2,\"s\":\"a\\\"b\\\\c\\u000a\\u0001??\",\"u\":18446744073709551615,"
                        "\"i\":-9223372036854775808,\"d\":0.5,\"nan\":0,\"t\":true,"
                        "\"null\":null,\"list\":[{},1]}\n");
    close(pipes[0]);
    close(pipes[1]);
    json_begin(&j);
    assert_false(json_write(&j, pipes[1])); /* the reader has closed the pipe */
    json_free(&j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(json_line_has_commas_and_escapes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
