# Writes the commit that is built into a header, if it is not there already. Included, at the time of
# configuration; run as a script, at that of each build. Needs `source` and `header`.
execute_process(COMMAND git -C ${source} describe --always --dirty --abbrev=10 --exclude=*
                OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET
                RESULT_VARIABLE failed)
if(failed OR NOT commit)
  set(commit unknown)  # a source archive, or no git
endif()
file(CONFIGURE OUTPUT ${header} CONTENT "#define DTN_COMMIT \"${commit}\"\n" @ONLY)
