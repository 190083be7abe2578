# SPDX-License-Identifier: MIT
# Runs at installation: the program prints its completions, and its manual page is made from its help. Set before:
# program, name, made (a folder for the results), man_page and python (or empty), man_folder and data_folder (where to
# install, relative to the prefix or absolute).
cmake_policy(VERSION 3.25)

function(install_page folder)
  cmake_path(ABSOLUTE_PATH folder BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}")
  cmake_parse_arguments(PARSE_ARGV 1 page "" "FILE" "COMMAND")
  execute_process(COMMAND ${page_COMMAND} OUTPUT_FILE "${made}/${page_FILE}" ERROR_VARIABLE complaint RESULT_VARIABLE code)
  if(code EQUAL 0)
    file(INSTALL "${made}/${page_FILE}" DESTINATION "${folder}" TYPE FILE)
  else()
    message(WARNING "${page_FILE} is not installed: ${page_COMMAND}: ${code} ${complaint}")
  endif()
endfunction()

file(MAKE_DIRECTORY "${made}/bash")
install_page("${data_folder}/bash-completion/completions" FILE bash/${name} COMMAND "${program}" completion bash)
install_page("${data_folder}/zsh/site-functions" FILE _${name} COMMAND "${program}" completion zsh)
install_page("${data_folder}/fish/vendor_completions.d" FILE ${name}.fish COMMAND "${program}" completion fish)
if(python)
  install_page("${man_folder}/man1" FILE ${name}.1 COMMAND "${python}" -B "${man_page}" "${program}" ${name})
endif()
