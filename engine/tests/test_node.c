/* NUMA nodes from files like those of a machine with two sockets, and random names. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "io/node.h"
#include "own_folder.h"

static char sys[256];

static void make(const char *folders, const char *content)
{
    char path[1024] = "";

    for (const char *end = folders; end != NULL; end++) {
        end = strchr(end, '/');
        if (end == NULL)
            break;
        snprintf(path, sizeof path, "%s/%.*s", sys, (int)(end - folders), folders);
        mkdir(path, 0700);
    }
    snprintf(path, sizeof path, "%s/%s", sys, folders);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(content, file);
    fclose(file);
}

static void nodes_of_function_and_core(void **state)
{
    (void)state;
    assert_true(own_folder(sys, sizeof sys, "node"));
    make("bus/pci/devices/0000:83:00.1/numa_node", "1\n");
    make("bus/pci/devices/0000:03:00.0/numa_node", "-1\n");
    make("devices/system/cpu/cpu7/node1/cpulist", "4-7\n");
    assert_int_equal(node_of_function(sys, "0000:83:00.1"), 1);
    assert_int_equal(node_of_function(sys, "83:00.1"), 1);
    assert_int_equal(node_of_function(sys, "03:00.0"), NODE_UNKNOWN);
    assert_int_equal(node_of_function(sys, "04:00.0"), NODE_UNKNOWN);
    assert_int_equal(node_of_core(sys, 7), 1);
    assert_int_equal(node_of_core(sys, 8), NODE_UNKNOWN);
}

static void random_names_differ(void **state)
{
    (void)state;
    unsigned char a[16] = {0}, b[16] = {0};
    random_fill(a, sizeof a);
    random_fill(b, sizeof b);
    assert_memory_not_equal(a, b, sizeof a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_of_function_and_core),
        cmocka_unit_test(random_names_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
