/* The arguments of a port specification ("dev=eth0,mmsg,qdisc=queue") as a table with one row per
 * key. The parser and its messages use the table. */
#ifndef SM_IO_ARGUMENTS_H
#define SM_IO_ARGUMENTS_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>

enum io_key_kind {
    IO_KEY_DEVICE, /* char[IFNAMSIZ]: the name of a network device */
    IO_KEY_FLAG,   /* bool: set if the key is given */
    IO_KEY_NUMBER, /* unsigned, `min` to `max` */
    IO_KEY_CHOICE, /* unsigned: the index in `choices` */
};

struct io_key {
    const char *name;
    enum io_key_kind kind;
    size_t offset; /* offset of the field in the struct that is filled in */
    unsigned min, max;
    const char *const *choices; /* ended by NULL */
};

/* Fill in `into` from `arguments`; a key that is not given leaves its value unchanged. False: one
 * line in `error`. */
bool io_parse(const char *backend, const struct io_key *keys, unsigned count, const char *arguments,
              void *into, char *error, size_t error_size);
#endif
