# SPDX-License-Identifier: MIT
# Fails where an editor cannot read a file of src/cuda/kernels by itself, with the flags that .clangd gives it.
cmake_minimum_required(VERSION 3.25)
file(READ ${SOURCE}/.clangd settings)
if(NOT settings MATCHES "Add: \\[([^]]+)\\]")
  message(FATAL_ERROR ".clangd names no flags for kernels")
endif()
string(REPLACE ", " ";" flags "${CMAKE_MATCH_1}")
file(GLOB kernels ${SOURCE}/src/cuda/kernels/*.cuh ${SOURCE}/src/cuda/kernels/parts/*.cuh)
foreach(kernel ${kernels})
  execute_process(COMMAND ${CLANG} ${flags} -Wno-unknown-cuda-version -Wno-pragma-once-outside-header -Werror -fsyntax-only
                          -I${SOURCE}/src ${kernel}
                  ERROR_VARIABLE errors RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(SEND_ERROR "${kernel}: ${errors}")
  endif()
endforeach()
