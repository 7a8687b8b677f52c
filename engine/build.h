/* How this program was built: whatever makes two builds of one revision differ in speed. */
#ifndef SM_BUILD_H
#define SM_BUILD_H

#include <stdbool.h>

struct engine_build {
    const char *compiler;     /* "gcc 12.2.0" */
    const char *optimisation; /* as in -O: "0", "g", "1", "2", "3", "s", ... */
    const char *sanitizers;   /* "address,undefined"; NULL: none */
    bool coverage;            /* counts which code ran, for coverage reports or for a fuzzer */
    const char *cpu;          /* that of -march; NULL: the compiler's default */
    const char *options;      /* those of the user that change the code; NULL: none */
    const char *dpdk;         /* the version that is linked in; NULL: none */
};

extern const struct engine_build engine_build;

/* The build ID that the linker wrote, in hexadecimal: equal for equal bytes of code. NULL: none. */
const char *engine_build_id(void);

/* False: its figures say nothing about the engine that users run. */
bool engine_build_is_fast(void);

/* The line of --version. */
void engine_build_print(void);
#endif
