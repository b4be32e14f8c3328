// precompiled.h, compiled on its own.
