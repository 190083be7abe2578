# SPDX-License-Identifier: MIT
# Installs the compiled module and the stubs of a package folder, and the program.
add_custom_target(ebb_package)
add_custom_target(ebb_program)
install(DIRECTORY ${EBB_PREBUILT_PACKAGE}/ebb/ DESTINATION ebb COMPONENT python
        FILES_MATCHING PATTERN "_core.*" PATTERN "*.pyi" PATTERN "__pycache__" EXCLUDE)
install(PROGRAMS ${EBB_PREBUILT_PROGRAM} DESTINATION ebb RENAME _program COMPONENT python)
install(PROGRAMS python/command/ebb DESTINATION ${SKBUILD_SCRIPTS_DIR} COMPONENT python)
