# libgoblin as a shared and a static library made of the objects that the programs and tests link,
# and everything else that is installed beside the programs.
set(libgoblin_objects $<TARGET_OBJECTS:goblin_engine> $<TARGET_OBJECTS:goblin_base>)
set(libgoblin_map ${CMAKE_SOURCE_DIR}/cmake/libgoblin.map)

add_library(libgoblin_shared SHARED ${libgoblin_objects})
target_link_libraries(libgoblin_shared PRIVATE PkgConfig::URING PkgConfig::URCU PkgConfig::XXHASH
    Threads::Threads)
target_link_options(libgoblin_shared PRIVATE LINKER:--version-script=${libgoblin_map}
    LINKER:-Bsymbolic-functions)
if(NOT GOBLIN_SANITIZE)
    target_link_options(libgoblin_shared PRIVATE LINKER:-z,defs)
endif()
set_target_properties(libgoblin_shared PROPERTIES
    OUTPUT_NAME goblin
    LINKER_LANGUAGE C
    LINK_DEPENDS ${libgoblin_map}
    VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR})

add_library(libgoblin_static STATIC ${libgoblin_objects})
set_target_properties(libgoblin_static PROPERTIES OUTPUT_NAME goblin LINKER_LANGUAGE C)

# The .pc file finds its prefix from where it lies, so that an installed tree can be moved.
file(RELATIVE_PATH GOBLIN_PREFIX_FROM_PC /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" GOBLIN_PREFIX_FROM_PC ${GOBLIN_PREFIX_FROM_PC})
configure_file(${CMAKE_SOURCE_DIR}/cmake/goblin.pc.in ${CMAKE_BINARY_DIR}/goblin.pc @ONLY)

install(TARGETS libgoblin_shared libgoblin_static
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/goblin DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
    FILES_MATCHING PATTERN "*.h")
install(FILES ${CMAKE_BINARY_DIR}/goblin.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# docs/man/<page>.<section>, completions/bash/<program>.
foreach(section 1 3 5 7)
    file(GLOB pages CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/docs/man/*.${section})
    install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
endforeach()
file(GLOB completions CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/completions/bash/*)
install(FILES ${completions} DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
# The service, for systemd's own directory below the prefix, and a file of options to start from.
configure_file(${CMAKE_SOURCE_DIR}/packaging/systemd/goblin.service
    ${CMAKE_BINARY_DIR}/goblin.service @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/goblin.service DESTINATION lib/systemd/system)
install(FILES ${CMAKE_SOURCE_DIR}/packaging/serve.ini
    DESTINATION ${CMAKE_INSTALL_DATADIR}/goblin)
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
