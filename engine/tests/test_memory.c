/* Free memory, from files that this test has written in place of the kernel's. */
#include "test.h"

#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "measure/memory.h"
#include "own_folder.h"

#define MB (1ULL << 20)

static char top[64], proc[80], groups[80];

static void put(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", top, name);
    for (char *slash = strchr(path + strlen(top) + 1, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int begin(void **state)
{
    (void)state;
    if (!own_folder(top, sizeof top, "test_memory"))
        return -1;
    snprintf(proc, sizeof proc, "%s/proc", top);
    snprintf(groups, sizeof groups, "%s/groups", top);
    return 0;
}

static int finish(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", top);
    return system(command);
}

static void memory_unknown_without_files(void **state)
{
    (void)state;
    assert_true(memory_left(proc, groups) > 1ULL << 60);
    put("proc/self/cgroup", "nonsense\n1:\n");
    assert_true(memory_left(proc, groups) > 1ULL << 60);
}

static void memory_limited_by_machine(void **state)
{
    (void)state;
    put("proc/meminfo", "MemTotal: 900 kB\nMemAvailable:   2048 kB\nSwapFree: 1024 kB\n");
    put("proc/self/cgroup", "0::/\n");
    assert_int_equal(memory_left(proc, groups), 3 * MB);
}

/* The minimum of a group and the groups above it; pages of files count as free. */
static void memory_limited_by_groups_version_2(void **state)
{
    (void)state;
    put("proc/self/cgroup", "0::/a/b\n");
    put("groups/a/b/memory.max", "max\n");
    put("groups/a/b/memory.current", "1048576\n");
    put("groups/a/memory.max", "104857600\n");
    put("groups/a/memory.current", "73400320\n");
    put("groups/a/memory.stat", "anon 5\nactive_file 10485760\ninactive_file 20971520\n");
    assert_int_equal(memory_left(proc, groups), 60 * MB);
    put("groups/a/b/memory.max", "2097152\n");
    assert_int_equal(memory_left(proc, groups), 1 * MB);
    put("groups/a/b/memory.current", "9999999\n"); /* was lowered */
    assert_int_equal(memory_left(proc, groups), 0);
}

static void memory_limited_by_groups_version_1(void **state)
{
    (void)state;
    put("proc/self/cgroup", "5:cpu:/other\n4:memory:/docker/abc\n0::/\n");
    put("groups/memory/docker/memory.limit_in_bytes", "9223372036854771712\n");
    put("groups/memory/memory.limit_in_bytes",
        "10485760\n"); /* the group of the container, as seen inside */
    put("groups/memory/memory.usage_in_bytes", "5242880\n");
    put("groups/memory/memory.stat", "inactive_file 7\ntotal_inactive_file 1048576\n");
    assert_int_equal(memory_left(proc, groups), 6 * MB);
}

static void memory_too_large_has_message(void **state)
{
    (void)state;
    char error[256] = "";
    assert_true(memory_suffices(1, "it ", error, sizeof error));
    assert_false(memory_suffices(1ULL << 59, "it ", error, sizeof error));
    assert_non_null(strstr(error, "it would take 549755813889 MB of memory"));
}

/* The memory begins and ends inside pages, and keeps its content. */
static void memory_populated_keeps_content(void **state)
{
    (void)state;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = 64 * page;
    uint8_t *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned char resident[64] = {0};
    assert_ptr_not_equal(memory, MAP_FAILED);
    memory[5] = 7;
    memory_populate(memory + 5, bytes - page);
    assert_int_equal(memory[5], 7);
    assert_int_equal(memory[bytes - page], 0);
    assert_int_equal(mincore(memory, bytes, resident), 0);
    const unsigned last = resident[62] & 1;
    munmap(memory, bytes);
    if (last == 0)
        skip(); /* a kernel before 5.14 */
}

static void memory_mapped_is_zero_and_has_no_pages(void **state)
{
    (void)state;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = 64 * page;
    unsigned char resident[64] = {0};
    uint8_t *memory = memory_map(bytes);
    assert_non_null(memory);
    assert_int_equal(mincore(memory, bytes, resident), 0);
    for (unsigned i = 0; i < 64; i++)
        assert_int_equal(resident[i] & 1, 0);
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(memory[i], 0);
    memory_unmap(memory, bytes);
    memory_unmap(NULL, 0);
    assert_null(memory_map(SIZE_MAX / 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(memory_unknown_without_files, begin, finish),
        cmocka_unit_test_setup_teardown(memory_limited_by_machine, begin, finish),
        cmocka_unit_test_setup_teardown(memory_limited_by_groups_version_2, begin, finish),
        cmocka_unit_test_setup_teardown(memory_limited_by_groups_version_1, begin, finish),
        cmocka_unit_test(memory_too_large_has_message),
        cmocka_unit_test(memory_populated_keeps_content),
        cmocka_unit_test(memory_mapped_is_zero_and_has_no_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
