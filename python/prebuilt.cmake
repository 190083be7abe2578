# Installs the compiled module and the stubs of a package folder.
add_custom_target(ebb_package)
install(DIRECTORY ${EBB_PREBUILT_PACKAGE}/ebb/ DESTINATION ebb COMPONENT python
        FILES_MATCHING PATTERN "_core.*" PATTERN "*.pyi" PATTERN "__pycache__" EXCLUDE)
