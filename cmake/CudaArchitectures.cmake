# GPU architectures that the CUDA backend is built for. Attention by products of warpgroups needs
# 90a, which is compute capability 9.0 with all of its instructions. CMake's words `native`, `all`
# and `all-major` give 90 without the a.

# dtn_cuda_architectures(<result> <asked> <native>): the architectures that targets get. <asked> is
# what the user passed; <native> is what CMake found on this machine, empty if there is no GPU.
# CMake stops with an error of its own if it is asked for `native` and there is no GPU.
function(dtn_cuda_architectures result asked native)
  set(chosen ${asked})
  if(asked STREQUAL "native" AND native)
    set(chosen ${native})
    list(TRANSFORM chosen REPLACE "^90-real$" "90a-real")
  endif()
  set(${result} "${chosen}" PARENT_SCOPE)
endfunction()

# dtn_warn_without_90a(<architectures>): warns if there is machine code for compute capability 9.0,
# but none for 90a. The warning names the value to pass.
function(dtn_warn_without_90a architectures)
  if(architectures MATCHES "^all(-major)?$")
    set(better "80-real;90a-real;90-virtual")
  else()
    set(better ${architectures})
    list(TRANSFORM better REPLACE "^90-real$" "90a-real")
    list(TRANSFORM better REPLACE "^90$" "90a-real;90-virtual")
    if(architectures MATCHES "90a" OR "${better}" STREQUAL "${architectures}")
      return()
    endif()
  endif()
  message(WARNING "CMAKE_CUDA_ARCHITECTURES is ${architectures}, which has 90 without 90a. On GPUs "
    "of compute capability 9.0 (H100, H200) there will be no attention by products of warpgroups. "
    "To have it, pass -DCMAKE_CUDA_ARCHITECTURES='${better}'.")
endfunction()
