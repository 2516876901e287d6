# Helpers: warnings, rooms, programs.
add_compile_definitions(_GNU_SOURCE GOBLIN_VERSION="${PROJECT_VERSION}")
add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes
    -Wmissing-prototypes -Wvla -fno-omit-frame-pointer)
if(GOBLIN_WERROR)
    add_compile_options(-Werror)
endif()
if(GOBLIN_FUZZ)
    add_compile_options(-fsanitize=fuzzer-no-link)
endif()
if(GOBLIN_SANITIZE)
    add_compile_options(-fsanitize=${GOBLIN_SANITIZE} -fno-sanitize-recover=all)
    add_link_options(-fsanitize=${GOBLIN_SANITIZE})
endif()
if(GOBLIN_TESTS)
    # Each test is a program: lld, where it is, links them in half of the default linker's time.
    include(CheckLinkerFlag)
    check_linker_flag(C -fuse-ld=lld GOBLIN_LLD)
    if(GOBLIN_LLD)
        add_link_options(-fuse-ld=lld)
    endif()
endif()

# A room is a static library goblin_<name> of all C files in src/<name>, linked against the rooms
# and libraries that follow.
function(goblin_room name)
    file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.c)
    add_library(goblin_${name} STATIC ${sources})
    target_include_directories(goblin_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src
        ${CMAKE_SOURCE_DIR}/include)
    set_target_properties(goblin_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    foreach(dep ${ARGN})
        if(dep STREQUAL "base")
            target_link_libraries(goblin_${name} PUBLIC goblin_base)
        else()
            target_link_libraries(goblin_${name} PUBLIC ${dep})
        endif()
    endforeach()
endfunction()

# A file of a room as bytes in its library: const unsigned char <symbol>[], const size_t <symbol>_len.
function(goblin_embed room name symbol)
    set(source ${CMAKE_SOURCE_DIR}/src/${room}/${name})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
    file(READ ${source} hex HEX)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
    set(made ${CMAKE_BINARY_DIR}/embedded/${symbol}.c)
    file(CONFIGURE OUTPUT ${made} CONTENT "/* ${name} */
#include <stddef.h>
extern const unsigned char ${symbol}[];
extern const size_t ${symbol}_len;
const unsigned char ${symbol}[] = {${bytes}};
const size_t ${symbol}_len = sizeof(${symbol});
")
    target_sources(goblin_${room} PRIVATE ${made})
endfunction()

# A program is all C files of src/<room>; the ones that are not its main() form a library, so that
# tests can link them.
function(goblin_program name room)
    file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${room}/*.c)
    if(room STREQUAL "bench")
        set(main ${CMAKE_SOURCE_DIR}/src/bench/main.c)
    else()
        set(main ${CMAKE_SOURCE_DIR}/src/${room}/${name}.c)
    endif()
    list(REMOVE_ITEM sources ${main})
    add_library(goblin_${room} STATIC ${sources})
    target_link_libraries(goblin_${room} PUBLIC ${ARGN})
    add_executable(${name} ${main})
    target_link_libraries(${name} PRIVATE goblin_${room})
    install(TARGETS ${name} DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()
