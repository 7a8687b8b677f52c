/* A temporary directory of a test, and a file in it. */
#ifndef SM_TEST_OWN_FOLDER_H
#define SM_TEST_OWN_FOLDER_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline bool own_folder(char *path, size_t size, const char *test)
{
    snprintf(path, size, "/tmp/%s_XXXXXX", test);
    return mkdtemp(path) != NULL;
}

static inline bool own_file(char *path, size_t size, const char *folder)
{
    snprintf(path, size, "%s/file", folder);
    const int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    return fd >= 0 && close(fd) == 0;
}
#endif
