# How a layer of the library is built: dtn_layer(<name> PUBLIC <layers below> PRIVATE <libraries>)
# compiles src/<name>/**.cpp into the static library dtn_<name>.

set(DTN_WARNINGS -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # GCC 12 sees these in inlined code where they are not
  list(APPEND DTN_WARNINGS -Wno-restrict -Wno-stringop-overflow)
endif()

# Only what lies in include/ is installed, and seen by users' programs.
function(dtn_target_defaults target)
  target_include_directories(${target} PUBLIC
    "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include;${PROJECT_SOURCE_DIR}/src>"
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_options(${target} PRIVATE ${DTN_WARNINGS})
endfunction()

# What is installed says where in the source a check failed, but not where the source once lay.
function(dtn_forget_source_folder target)
  set(flag -ffile-prefix-map=${PROJECT_SOURCE_DIR}/=)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:${flag}> $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${flag}>)
endfunction()

# Programs, tests and layers that only direct others: what has to be fast is elsewhere, so these
# are compiled in less time.
set(DTN_DIRECTING_LAYERS config plot apps)
function(dtn_program_defaults target)
  dtn_target_defaults(${target})
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

# The commands of src/apps/common/commands.cpp. Each is also a link to the program: dtn-train is dtn.
set(DTN_COMMANDS train eval predict sample average export analyze plot sweep info get data bench)

# dtn_command_program(<target> <folder>): the program `dtn` and its links in a folder.
function(dtn_command_program target folder)
  add_executable(${target} ${PROJECT_SOURCE_DIR}/tools/dtn.cpp)
  dtn_program_defaults(${target})
  target_link_libraries(${target} PRIVATE dtn_apps nlohmann_json::nlohmann_json)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME dtn RUNTIME_OUTPUT_DIRECTORY ${folder})
  foreach(command IN LISTS DTN_COMMANDS)
    add_custom_command(TARGET ${target} POST_BUILD
      COMMAND ${CMAKE_COMMAND} -E create_symlink dtn ${folder}/dtn-${command})
  endforeach()
endfunction()

# The library of a layer is installed as dtn::<name>; users link to dtn::dtn, see Install.cmake.
function(dtn_install_layer name)
  dtn_forget_source_folder(dtn_${name})
  set_target_properties(dtn_${name} PROPERTIES EXPORT_NAME ${name})
  set_property(GLOBAL APPEND PROPERTY DTN_LAYERS dtn_${name})
endfunction()

function(dtn_layer name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/src/dist/mpi/")  # a module of its own
  if(NOT sources)  # a layer that has no file of its own yet
    set(sources ${PROJECT_SOURCE_DIR}/src/core/check.cpp)
  endif()
  add_library(dtn_${name} STATIC ${sources})
  if(name IN_LIST DTN_DIRECTING_LAYERS)
    dtn_program_defaults(dtn_${name})
  else()
    dtn_target_defaults(dtn_${name})
  endif()
  # Eight sources at a time. Names in unnamed namespaces then meet.
  set_target_properties(dtn_${name} PROPERTIES UNITY_BUILD ${DTN_UNITY} UNITY_BUILD_BATCH_SIZE 8)
  target_link_libraries(dtn_${name} ${ARGN})
  dtn_install_layer(${name})
endfunction()

# What links to MPI: lib/dtn/dtn_mpi.so, see src/dist/mpi/module.h. Without MPI there is none.
function(dtn_mpi_module)
  if(NOT MPI_CXX_FOUND)
    message(STATUS "MPI: not found or switched off; programs run in one process")
    return()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/dist/mpi/*.cpp)
  add_library(dtn_mpi MODULE ${sources} ${PROJECT_SOURCE_DIR}/src/core/check.cpp)
  dtn_target_defaults(dtn_mpi)
  target_link_libraries(dtn_mpi PRIVATE MPI::MPI_CXX)
  dtn_forget_source_folder(dtn_mpi)
  set_target_properties(dtn_mpi PROPERTIES PREFIX ""
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib/dtn)
  install(TARGETS dtn_mpi DESTINATION lib/dtn)
endfunction()

# Kernels are compiled once per instruction set, each time into a namespace of its own, and chosen
# when the program runs (see src/kernels/cpu/isa.h). A file that is not vectorised by hand, such as
# the matrix product that calls oneDNN, is listed in DTN_PLAIN_KERNELS and compiled once.
set(DTN_PLAIN_KERNELS isa gemm gemm_onednn gemm_onednn_rows gemm_eigen linear convolution)
set(DTN_ISAS all CACHE STRING "Instruction sets of the kernels: all, runnable (those of this \
machine), foreign (the others), best (the last runnable one), or some of generic;avx2;avx512")

# Sets `result` to the instruction sets that are built. The first carries the dispatchers.
function(dtn_instruction_sets result)
  set(all generic avx2 avx512)
  if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    set(all generic)
  endif()
  set(runnable generic)
  if(DTN_ISAS MATCHES "^(runnable|foreign|best)$")
    execute_process(COMMAND ${CMAKE_CXX_COMPILER} -march=native -dM -E -x c++ /dev/null
                    OUTPUT_VARIABLE macros)
    if(macros MATCHES "__AVX2__" AND macros MATCHES "__FMA__")
      list(APPEND runnable avx2)
    endif()
    if(macros MATCHES "__AVX512BF16__" AND macros MATCHES "__AVX512VL__")
      list(APPEND runnable avx512)
    endif()
  endif()
  list(GET runnable -1 best)
  set(foreign ${all})
  list(REMOVE_ITEM foreign ${runnable})
  if(DTN_ISAS STREQUAL "foreign" AND NOT foreign)
    set(foreign generic)  # a library must have one
  endif()
  if(DTN_ISAS MATCHES "^(all|runnable|foreign|best)$")
    set(${result} ${${DTN_ISAS}} PARENT_SCOPE)
  else()
    set(${result} ${DTN_ISAS} PARENT_SCOPE)
  endif()
endfunction()

set(DTN_ISA_FLAGS_generic "")
set(DTN_ISA_FLAGS_avx2 -mavx2 -mfma -mf16c)
set(DTN_ISA_FLAGS_avx512 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512bf16 -mfma -mf16c
                         -mprefer-vector-width=512)

function(dtn_kernel_layer name)
  file(GLOB_RECURSE vectorised CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.cpp)
  set(plain ${vectorised})
  list(TRANSFORM DTN_PLAIN_KERNELS PREPEND "/" OUTPUT_VARIABLE plain_stems)
  list(JOIN plain_stems "|" pattern)
  list(FILTER plain INCLUDE REGEX "(${pattern})[.]cpp$")
  list(FILTER vectorised EXCLUDE REGEX "(${pattern})[.]cpp$")
  add_library(dtn_${name} STATIC ${plain})
  dtn_target_defaults(dtn_${name})
  target_link_libraries(dtn_${name} ${ARGN} PRIVATE $<BUILD_INTERFACE:Eigen3::Eigen>)
  dtn_install_layer(${name})
  if(DTN_ONEDNN)
    target_link_libraries(dtn_${name} PRIVATE DNNL::dnnl)
    target_compile_definitions(dtn_${name} PUBLIC $<BUILD_INTERFACE:DTN_HAVE_ONEDNN=1>)
  endif()
  dtn_instruction_sets(isas)
  list(TRANSFORM isas REPLACE "(.+)" "$<BUILD_INTERFACE:DTN_HAVE_ISA_\\1=1>" OUTPUT_VARIABLE built)
  target_compile_definitions(dtn_${name} PUBLIC ${built})
  list(GET isas 0 dispatching)
  foreach(isa IN LISTS isas)
    add_library(dtn_${name}_${isa} OBJECT ${vectorised})
    dtn_target_defaults(dtn_${name}_${isa})
    dtn_forget_source_folder(dtn_${name}_${isa})
    target_compile_options(dtn_${name}_${isa} PRIVATE ${DTN_ISA_FLAGS_${isa}} -fno-math-errno
      -fno-trapping-math -ffp-contract=fast
      # Below -O2 GCC would leave the upper halves of registers in use behind, and everything else
      # be many times slower for it on Intel's processors.
      $<$<CXX_COMPILER_ID:GNU>:-fexpensive-optimizations>
      # What kernels hold in registers is counted; GCC would keep what the next turn of a loop reads
      # again there, too, and spill their sums for it.
      $<$<CXX_COMPILER_ID:GNU>:-fno-predictive-commoning>
      $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>  # GCC 12 warns of its own AVX-512 headers
      -Wno-uninitialized
      # Unoptimised, inline functions of the headers would stay in these objects as symbols that the
      # linker could pick for the whole program, on machines that lack the instructions.
      $<$<CONFIG:Debug>:-O2>)
    if(isa STREQUAL "generic" AND NOT isas STREQUAL "generic")
      # A fallback for processors of before 2013. -O3 would take half as long again to compile.
      target_compile_options(dtn_${name}_${isa} PRIVATE
        $<$<AND:$<CONFIG:Release>,$<CXX_COMPILER_ID:GNU>>:-O2$<SEMICOLON>-fvect-cost-model=dynamic>)
    endif()
    target_compile_definitions(dtn_${name}_${isa} PRIVATE
      DTN_ISA=isa_${isa} DTN_ISA_${isa}=1 ${built}
      $<$<STREQUAL:${isa},${dispatching}>:DTN_ISA_DISPATCHES=1>)
    if(DTN_FUZZ)  # what is fuzzed reads files; sanitizers take minutes for the vectors of kernels
      target_compile_options(dtn_${name}_${isa} PRIVATE -fno-sanitize=all
                             -fno-sanitize=fuzzer-no-link)
    endif()
    target_link_libraries(dtn_${name}_${isa} PRIVATE dtn_core)
    target_sources(dtn_${name} PRIVATE $<TARGET_OBJECTS:dtn_${name}_${isa}>)
  endforeach()
endfunction()

# What runs on CUDA devices: src/cuda/*.cpp and src/kernels/**.cu. The other layers only know its
# interface, so a program is linked with one of two libraries:
#   dtn_cuda           the backend when DTN_CUDA is on, else one that says that there is none
#   dtn_cuda_emulated  the same sources on the host, see tests/cuda_emulator; for programs with the
#                      property CUDA_EMULATED
set(DTN_CUDA_BACKEND
  $<BUILD_INTERFACE:$<IF:$<BOOL:$<TARGET_PROPERTY:CUDA_EMULATED>>,dtn_cuda_emulated,dtn_cuda>>
  $<INSTALL_INTERFACE:dtn_cuda>)

function(dtn_cuda_layer)
  file(GLOB runtime CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/cuda/*.cpp)
  file(GLOB_RECURSE kernels CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/kernels/*.cu)
  set(absent ${PROJECT_SOURCE_DIR}/src/cuda/absent.cpp)
  list(REMOVE_ITEM runtime ${absent})
  if(DTN_CUDA)
    add_library(dtn_cuda STATIC ${runtime} ${kernels})
    # A register that spills to memory is reported like every warning.
    set(flags --expt-relaxed-constexpr -lineinfo -Xptxas=--warn-on-spills -Xcompiler=-Wall,-Wextra)
    # Denormals are taken for 0, as on the CPU; but attention on tensor cores would run out of
    # registers for it, and its exponentials do so anyway.
    set(flushing ${kernels})
    list(FILTER flushing EXCLUDE REGEX "/attention_(tensor|warpgroup)_")
    set_source_files_properties(${flushing} PROPERTIES COMPILE_OPTIONS -ftz=true)
    if(CMAKE_CUDA_ARCHITECTURES MATCHES "90a")  # it alone has the products of warpgroups
      target_compile_definitions(dtn_cuda PRIVATE DTN_CUDA_SM_90A=1)
    endif()
    # For the message to whoever has another card.
    list(JOIN CMAKE_CUDA_ARCHITECTURES ", " architectures)
    set_source_files_properties(${PROJECT_SOURCE_DIR}/src/cuda/device.cpp PROPERTIES
      COMPILE_DEFINITIONS "DTN_CUDA_ARCHITECTURES=\"${architectures}\"")
    if(DTN_CUDA_STRICT)
      list(APPEND flags -Werror=all-warnings -Xptxas=--warning-as-error -Xcompiler=-Werror)
    endif()
    target_compile_options(dtn_cuda PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:${flags}>")
    target_link_libraries(dtn_cuda PRIVATE CUDA::cudart_static CUDA::cublasLt CUDA::nvtx3
                                           ${CMAKE_DL_LIBS})
    # Its header is enough: programs load the library when several ranks use it.
    find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
    if(NCCL_INCLUDE_DIR)
      target_compile_definitions(dtn_cuda PRIVATE DTN_HAVE_NCCL=1)
      target_include_directories(dtn_cuda SYSTEM PRIVATE ${NCCL_INCLUDE_DIR})
    else()
      message(STATUS "NCCL: no nccl.h; --device cuda will work in one process only")
    endif()
  else()
    add_library(dtn_cuda STATIC ${absent})
  endif()
  target_link_libraries(dtn_cuda PUBLIC dtn_core)
  target_include_directories(dtn_cuda PUBLIC
    "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include;${PROJECT_SOURCE_DIR}/src>")
  dtn_install_layer(cuda)
  if(DTN_TESTS AND NOT DTN_FUZZ)
    file(GLOB emulator CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/cuda_emulator/*.cpp)
    # A .cu is compiled as C++ through a file that includes it.
    foreach(kernel IN LISTS kernels)
      file(RELATIVE_PATH source ${PROJECT_SOURCE_DIR}/src ${kernel})
      string(REGEX REPLACE "[.]cu$" ".cpp" as_cpp ${PROJECT_BINARY_DIR}/emulated/${source})
      file(CONFIGURE OUTPUT ${as_cpp} CONTENT "#include \"${source}\"\n" @ONLY)
      list(APPEND emulated ${as_cpp})
    endforeach()
    add_library(dtn_cuda_emulated STATIC ${runtime} ${emulated} ${emulator})
    dtn_target_defaults(dtn_cuda_emulated)
    target_compile_definitions(dtn_cuda_emulated PUBLIC DTN_CUDA_EMULATED=1
                                                 PRIVATE DTN_HAVE_NCCL=1)
    target_compile_options(dtn_cuda_emulated PRIVATE $<$<CONFIG:Release>:-O2>
      -Wno-unknown-pragmas
      # GCC 12 does not see that a condition recurs.
      $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
    target_include_directories(dtn_cuda_emulated BEFORE PUBLIC
      ${PROJECT_SOURCE_DIR}/tests/cuda_emulator/include ${PROJECT_SOURCE_DIR}/tests)
    target_link_libraries(dtn_cuda_emulated PUBLIC dtn_core PRIVATE ${CMAKE_DL_LIBS})
    # NCCL is loaded by its name, here too; the library uses the emulator in the program. The old
    # kind of path is searched before LD_LIBRARY_PATH, which may lead to the real one.
    file(GLOB nccl CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/cuda_emulator/nccl/*.cpp)
    add_library(nccl_emulated SHARED ${nccl})
    dtn_target_defaults(nccl_emulated)
    target_include_directories(nccl_emulated BEFORE PRIVATE
      ${PROJECT_SOURCE_DIR}/tests/cuda_emulator/include ${PROJECT_SOURCE_DIR}/tests)
    set_target_properties(nccl_emulated PROPERTIES OUTPUT_NAME nccl SUFFIX .so.2 NO_SONAME ON
      LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/emulated)
    add_dependencies(dtn_cuda_emulated nccl_emulated)
    target_link_options(dtn_cuda_emulated INTERFACE -rdynamic
      LINKER:--disable-new-dtags,-rpath,${PROJECT_BINARY_DIR}/emulated)
  endif()
endfunction()

# Sanitizers need not look at the tests' own code, which takes three times as long to compile with
# them: they see what the layers do with the memory of tests all the same.
function(dtn_test_defaults target)
  dtn_program_defaults(${target})
  if(CMAKE_CXX_FLAGS MATCHES "-fsanitize")
    target_compile_options(${target} PRIVATE -fno-sanitize=all)
    target_compile_definitions(${target} PRIVATE DTN_SANITIZED=1)  # what they run is
  endif()
endfunction()

# What nearly every test includes, compiled once. The tests may only define more than it does.
function(dtn_test_headers)
  add_library(dtn_test_headers OBJECT ${PROJECT_SOURCE_DIR}/tests/precompiled.cpp)
  dtn_test_defaults(dtn_test_headers)
  target_link_libraries(dtn_test_headers PRIVATE OpenMP::OpenMP_CXX Threads::Threads GTest::gtest)
  target_precompile_headers(dtn_test_headers PRIVATE ${PROJECT_SOURCE_DIR}/tests/precompiled.h)
endfunction()

# dtn_library_of(<result> <subject>): the library with src/<subject>, or else src/*/<subject>.
function(dtn_library_of result subject)
  set(layer ${subject})
  if(NOT IS_DIRECTORY ${PROJECT_SOURCE_DIR}/src/${subject})
    file(GLOB folder RELATIVE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/src/*/${subject})
    get_filename_component(layer ${folder} DIRECTORY)
  endif()
  set(${result} dtn_${layer} PARENT_SCOPE)
endfunction()

# dtn_test_program(<name> <label> <subject> <sources> [<environment>]): tests of a folder of src,
# each registered under the CTest labels <label> and <name>.
function(dtn_test_program name label subject sources)
  add_executable(${name} ${sources})
  dtn_test_defaults(${name})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  if(subject MATCHES "^(analyze|data|info|io|models|norms|tasks|train)$")  # they read files of the source tree
    target_compile_definitions(${name} PRIVATE DTN_TESTS_FOLDER="${PROJECT_SOURCE_DIR}/tests")
  endif()
  target_precompile_headers(${name} REUSE_FROM dtn_test_headers)
  dtn_library_of(library ${subject})
  if(subject MATCHES "^(config|data|optim)$")  # they read configs, which name presets
    list(APPEND library dtn_models)
  endif()
  target_link_libraries(${name} PRIVATE ${library} GTest::gtest GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  gtest_discover_tests(${name} TEST_PREFIX ${label}. TEST_LIST ${name}_tests NO_PRETTY_VALUES
                       TEST_FILTER "-*DISABLED_*"  # parts of other tests
                       DISCOVERY_TIMEOUT 60)
  # gtest_discover_tests() drops all but the first value of a property.
  set(properties ${CMAKE_CURRENT_BINARY_DIR}/${name}_properties.cmake)
  set(environment OMP_WAIT_POLICY=passive ${ARGN})
  file(CONFIGURE OUTPUT ${properties} @ONLY CONTENT "if(@name@_tests)
  set_tests_properties(\${@name@_tests} PROPERTIES LABELS \"@label@;@name@\"
                       ENVIRONMENT \"@environment@\")
endif()
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${properties})
endfunction()

# dtn_tests(<label> [<folder> [<environment>]]): compiles tests/<folder>/<subject>/*_test.cpp into
# one program per subject, <label>_<subject>, and names these in <label>_programs. A subject is a
# folder of src, see dtn_library_of(). The folder is that of the label unless given.
function(dtn_tests label)
  set(folder ${label})
  if(ARGC GREATER 1)
    set(folder ${ARGV1})
  endif()
  set(programs)
  file(GLOB subjects CONFIGURE_DEPENDS LIST_DIRECTORIES true ${PROJECT_SOURCE_DIR}/tests/${folder}/*)
  foreach(subject_folder IN LISTS subjects)
    file(GLOB sources CONFIGURE_DEPENDS ${subject_folder}/*_test.cpp)
    if(sources)
      get_filename_component(subject ${subject_folder} NAME)
      dtn_test_program(${label}_${subject} ${label} ${subject} "${sources}" ${ARGV2})
      list(APPEND programs ${label}_${subject})
    endif()
  endforeach()
  set(${label}_programs ${programs} PARENT_SCOPE)
endfunction()
