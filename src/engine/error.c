/* Codes into sentences. */
#include <goblin/error.h>

#include <string.h>

const char *goblin_strerror(int code)
{
    switch (code) {
#define GOBLIN_X(name, value, sentence)                                                            \
    case name:                                                                                     \
        return sentence;
        GOBLIN_ERRORS(GOBLIN_X)
#undef GOBLIN_X
    case GOBLIN_MISS:
        return "no such object";
    case GOBLIN_OK:
        return "done";
    case GOBLIN_EXISTS:
        return "the object exists";
    case GOBLIN_CHANGED:
        return "the object has another version";
    default: {
        const char *text = strerrordesc_np(code < 0 ? -code : code);
        return text != NULL ? text : "unknown error";
    }
    }
}
