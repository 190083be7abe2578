# SPDX-License-Identifier: MIT
# Runs at installation: the program prints its completions, and its manual page is made from its help. Set before are ebb_file,
# the program; ebb_name, what it is called; ebb_made, a folder for the results; ebb_man_page and ebb_python (or nothing), which
# make the manual page; ebb_man_folder and ebb_data_folder, where to install, relative to the prefix or absolute. A variable
# called `program` would be taken for the component's name in cmake_install.cmake.
cmake_policy(VERSION 3.25)

function(install_page folder)
  cmake_path(ABSOLUTE_PATH folder BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}")
  cmake_parse_arguments(PARSE_ARGV 1 page "" "FILE" "COMMAND")
  execute_process(COMMAND ${page_COMMAND} OUTPUT_FILE "${ebb_made}/${page_FILE}" ERROR_VARIABLE complaint RESULT_VARIABLE code)
  if(code EQUAL 0)
    file(INSTALL "${ebb_made}/${page_FILE}" DESTINATION "${folder}" TYPE FILE)
  else()
    message(WARNING "${page_FILE} is not installed: ${page_COMMAND}: ${code} ${complaint}")
  endif()
endfunction()

file(MAKE_DIRECTORY "${ebb_made}/bash")
install_page("${ebb_data_folder}/bash-completion/completions" FILE bash/${ebb_name} COMMAND "${ebb_file}" completion bash)
install_page("${ebb_data_folder}/zsh/site-functions" FILE _${ebb_name} COMMAND "${ebb_file}" completion zsh)
install_page("${ebb_data_folder}/fish/vendor_completions.d" FILE ${ebb_name}.fish COMMAND "${ebb_file}" completion fish)
if(ebb_python)
  install_page("${ebb_man_folder}/man1" FILE ${ebb_name}.1 COMMAND "${ebb_python}" -B "${ebb_man_page}" "${ebb_file}" ${ebb_name})
endif()
