/* The version of the engine, given by the build. */
#ifndef SM_VERSION
#define SM_VERSION "0.0.0"
#endif
