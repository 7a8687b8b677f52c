/* Facts about the build: values from build_facts.h, macros of the compiler, and the build ID. */
#include "build.h"

#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "build_facts.h"

#define BUILD_ID_BYTES_MAX 32
#define NOTE_ALIGNMENT 4

#ifdef __clang__
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

/* Some compilers define macros for some sanitizers. */
#if defined(__SANITIZE_ADDRESS__)
#define SEEN "address"
#elif defined(__SANITIZE_THREAD__)
#define SEEN "thread"
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SEEN "address"
#elif __has_feature(thread_sanitizer)
#define SEEN "thread"
#elif __has_feature(memory_sanitizer)
#define SEEN "memory"
#endif
#if __has_feature(coverage_sanitizer)
#define SEEN_COVERAGE true
#endif
#endif
#ifndef SEEN
#define SEEN NULL
#endif
#ifndef SEEN_COVERAGE
#define SEEN_COVERAGE false
#endif
#ifdef __OPTIMIZE__
#define OPTIMISATION BUILD_OPTIMISATION
#else
#define OPTIMISATION "0"
#endif

const struct engine_build engine_build = {
    .compiler = COMPILER,
    .optimisation = OPTIMISATION,
    .sanitizers = sizeof BUILD_SANITIZERS > 1 ? BUILD_SANITIZERS : SEEN,
    .coverage = BUILD_COVERAGE || SEEN_COVERAGE,
    .cpu = sizeof BUILD_CPU > 1 ? BUILD_CPU : NULL,
    .options = sizeof BUILD_OPTIONS > 1 ? BUILD_OPTIONS : NULL,
    .dpdk = sizeof BUILD_DPDK > 1 ? BUILD_DPDK : NULL,
};

static size_t padded(size_t bytes)
{
    return (bytes + NOTE_ALIGNMENT - 1) / NOTE_ALIGNMENT * NOTE_ALIGNMENT;
}

/* Search the notes of the first object, which is the program itself, for the build ID. */
static int read_notes(struct dl_phdr_info *info, size_t size, void *text)
{
    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        const uint8_t *at = (const uint8_t *)(info->dlpi_addr + header->p_vaddr);
        const uint8_t *end = at + header->p_memsz;
        while (header->p_type == PT_NOTE && at + sizeof(ElfW(Nhdr)) <= end) {
            ElfW(Nhdr) note;
            memcpy(&note, at, sizeof note);
            const uint8_t *name = at + sizeof note, *bytes = name + padded(note.n_namesz);
            if (note.n_type == NT_GNU_BUILD_ID && note.n_descsz <= BUILD_ID_BYTES_MAX &&
                note.n_namesz == 4 && memcmp(name, "GNU", 4) == 0) {
                for (unsigned byte = 0; byte < note.n_descsz; byte++)
                    snprintf((char *)text + 2 * byte, 3, "%02x", (unsigned)bytes[byte]);
                return 1;
            }
            at = bytes + padded(note.n_descsz);
        }
    }
    return 1;
}

const char *engine_build_id(void)
{
    static char text[2 * BUILD_ID_BYTES_MAX + 1];

    if (text[0] == '\0')
        dl_iterate_phdr(read_notes, text);
    return text[0] == '\0' ? NULL : text;
}

bool engine_build_is_fast(void)
{
    const struct engine_build *b = &engine_build;

    return b->sanitizers == NULL && !b->coverage &&
           (strcmp(b->optimisation, "2") == 0 || strcmp(b->optimisation, "3") == 0 ||
            strcmp(b->optimisation, "fast") == 0);
}

void engine_build_print(void)
{
    const struct engine_build *b = &engine_build;
    const char *id = engine_build_id();

    printf("built with %s -O%s for %s, sanitizers: %s, coverage: %s, options: %s, DPDK: %s, "
           "build ID: %s%s\n",
           b->compiler, b->optimisation, b->cpu == NULL ? "any CPU of its architecture" : b->cpu,
           b->sanitizers == NULL ? "none" : b->sanitizers, b->coverage ? "yes" : "no",
           b->options == NULL ? "none" : b->options, b->dpdk == NULL ? "none" : b->dpdk,
           id == NULL ? "none" : id,
           engine_build_is_fast() ? ""
                                  : "\nnot for measuring: figures of this build are not valid");
}
