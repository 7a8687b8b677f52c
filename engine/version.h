/* The version of the engine, given by the build, and that of what it says and obeys. */
#ifndef SM_VERSION
#define SM_VERSION "0.0.0"
#endif

#define PROTOCOL_VERSION 2 /* docs/engine-protocol.md; the bench speaks one */
