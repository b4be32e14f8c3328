// Compiles precompiled.h alone.
