# The API reference, from the comments of the public headers. `cmake --build build --target docs`
# writes it to build/docs/html; build/Doxyfile.docs lists the settings. Optional: needs doxygen.
find_package(Doxygen QUIET)
if(NOT DOXYGEN_FOUND)
  return()
endif()
set(DOXYGEN_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/docs)
set(DOXYGEN_USE_MDFILE_AS_MAINPAGE docs/api.md)
# Comments are plain; the filter shows them to doxygen.
set(DOXYGEN_FILTER_PATTERNS "*.h=python3 ${PROJECT_SOURCE_DIR}/docs/doxygen_filter.py")
set(DOXYGEN_JAVADOC_AUTOBRIEF YES)
set(DOXYGEN_MACRO_EXPANSION YES)
set(DOXYGEN_EXPAND_ONLY_PREDEF YES)
set(DOXYGEN_PREDEFINED DTN_HOST_DEVICE=)
set(DOXYGEN_EXCLUDE_SYMBOLS dtn::detail DTN_ONE_BODY)
set(DOXYGEN_STRIP_FROM_INC_PATH include)
set(DOXYGEN_SORT_MEMBER_DOCS NO)
set(DOXYGEN_QUIET YES)
set(DOXYGEN_HAVE_DOT NO)
set(DOXYGEN_GENERATE_XML YES)  # for tests/check_api_reference.py
set(DOXYGEN_XML_PROGRAMLISTING NO)
# Members whose names say all have no comments; tests/check_api_reference.py knows which need one.
set(DOXYGEN_WARN_IF_UNDOCUMENTED NO)
set(DOXYGEN_WARN_AS_ERROR FAIL_ON_WARNINGS)
doxygen_add_docs(docs include docs/api.md)
