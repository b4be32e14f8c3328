# How a layer of the library is built: dtn_layer(<name> PUBLIC <layers below> PRIVATE <libraries>)
# compiles src/<name>/*.cpp into the static library dtn_<name>.

set(DTN_WARNINGS -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # GCC 12 sees these in inlined code where they are not
  list(APPEND DTN_WARNINGS -Wno-restrict -Wno-stringop-overflow)
endif()

function(dtn_target_defaults target)
  target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR}/include
                                              ${PROJECT_SOURCE_DIR}/src)
  target_compile_options(${target} PRIVATE ${DTN_WARNINGS})
endfunction()

function(dtn_layer name)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.cpp)
  if(NOT sources)  # a layer that has no file of its own yet
    set(sources ${PROJECT_SOURCE_DIR}/src/core/check.cpp)
  endif()
  add_library(dtn_${name} STATIC ${sources})
  dtn_target_defaults(dtn_${name})
  target_link_libraries(dtn_${name} ${ARGN})
endfunction()

# Kernels are compiled once per instruction set, each time into a namespace of its own, and chosen
# when the program runs (see src/kernels/isa.h). A file that is not vectorised by hand, such as the
# matrix product that calls oneDNN, is listed in DTN_PLAIN_KERNELS and compiled once.
set(DTN_PLAIN_KERNELS isa gemm gemm_onednn gemm_eigen linear)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(DTN_ISAS generic avx2 avx512)
else()
  set(DTN_ISAS generic)
endif()
set(DTN_ISA_FLAGS_generic "")
set(DTN_ISA_FLAGS_avx2 -mavx2 -mfma -mf16c)
set(DTN_ISA_FLAGS_avx512 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512bf16 -mfma -mf16c
                         -mprefer-vector-width=512)

function(dtn_kernel_layer name)
  file(GLOB vectorised CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.cpp)
  set(plain ${vectorised})
  list(TRANSFORM DTN_PLAIN_KERNELS PREPEND "/" OUTPUT_VARIABLE plain_stems)
  list(JOIN plain_stems "|" pattern)
  list(FILTER plain INCLUDE REGEX "(${pattern})[.]cpp$")
  list(FILTER vectorised EXCLUDE REGEX "(${pattern})[.]cpp$")
  add_library(dtn_${name} STATIC ${plain})
  dtn_target_defaults(dtn_${name})
  target_link_libraries(dtn_${name} ${ARGN} PRIVATE Eigen3::Eigen)
  if(DTN_ONEDNN)
    target_link_libraries(dtn_${name} PRIVATE DNNL::dnnl)
    target_compile_definitions(dtn_${name} PUBLIC DTN_HAVE_ONEDNN=1)
  endif()
  list(LENGTH DTN_ISAS isa_count)
  foreach(isa IN LISTS DTN_ISAS)
    add_library(dtn_${name}_${isa} OBJECT ${vectorised})
    dtn_target_defaults(dtn_${name}_${isa})
    target_compile_options(dtn_${name}_${isa} PRIVATE ${DTN_ISA_FLAGS_${isa}} -fno-math-errno
      -fno-trapping-math -ffp-contract=fast
      # Unoptimised, inline functions of the headers would stay in these objects as symbols that the
      # linker could pick for the whole program, on machines that lack the instructions.
      $<$<CONFIG:Debug>:-O2>
      -Wno-uninitialized -Wno-maybe-uninitialized)  # GCC 12 warns of its own AVX-512 headers
    target_compile_definitions(dtn_${name}_${isa} PRIVATE DTN_ISA=isa_${isa} DTN_ISA_${isa}=1
                                                          DTN_ISA_COUNT=${isa_count})
    target_link_libraries(dtn_${name}_${isa} PRIVATE dtn_core)
    target_sources(dtn_${name} PRIVATE $<TARGET_OBJECTS:dtn_${name}_${isa}>)
  endforeach()
endfunction()

# dtn_test(<label>): compiles tests/<label>/<layer>/*_test.cpp into one program per layer,
# <label>_<layer>, registered under that CTest label.
function(dtn_tests label)
  file(GLOB layers CONFIGURE_DEPENDS LIST_DIRECTORIES true ${PROJECT_SOURCE_DIR}/tests/${label}/*)
  foreach(folder IN LISTS layers)
    get_filename_component(layer ${folder} NAME)
    file(GLOB sources CONFIGURE_DEPENDS ${folder}/*_test.cpp)
    if(NOT sources)
      continue()
    endif()
    add_executable(${label}_${layer} ${sources})
    dtn_target_defaults(${label}_${layer})
    target_include_directories(${label}_${layer} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
    target_link_libraries(${label}_${layer} PRIVATE dtn_${layer} GTest::gtest GTest::gtest_main)
    set_target_properties(${label}_${layer} PROPERTIES
      RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
    gtest_discover_tests(${label}_${layer} TEST_PREFIX ${label}. NO_PRETTY_VALUES
                         PROPERTIES LABELS ${label} ENVIRONMENT OMP_WAIT_POLICY=passive
                         DISCOVERY_TIMEOUT 60)
  endforeach()
endfunction()
