/* How this program was built: everything that can make two builds of one revision differ in speed.
 */
#ifndef SM_BUILD_H
#define SM_BUILD_H

#include <stdbool.h>

struct engine_build {
    const char *compiler;     /* "gcc 12.2.0" */
    const char *optimisation; /* as in -O: "0", "g", "1", "2", "3", "s" */
    const char *sanitizers;   /* "address,undefined"; NULL: no sanitizer */
    bool coverage;            /* counts executed code, for coverage reports or for a fuzzer */
    const char *cpu;          /* value of -march; NULL: the default of the compiler */
    const char *options;      /* options of the user that change the code; NULL: no option */
    const char *dpdk;         /* linked version; NULL: DPDK is not linked */
};

extern const struct engine_build engine_build;

/* The build ID that the linker wrote, in hexadecimal, or NULL. Equal code has equal IDs. */
const char *engine_build_id(void);

/* Return false if the speed of this build does not represent the speed of a release. */
bool engine_build_is_fast(void);

/* Print the line of --version. */
void engine_build_print(void);
#endif
