/* The version of the engine and of its protocol. */
#ifndef SM_VERSION_H
#define SM_VERSION_H

#define PROTOCOL_VERSION 2 /* docs/engine-protocol.md; the bench supports one version */

/* "0.1.0+adc1ca44305e": with the commit that last changed the engine, if the build knew it
 * (tools/revision). */
extern const char engine_version[];
#endif
