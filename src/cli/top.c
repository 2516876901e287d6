/* The verb `top`: a running server, seen from a terminal. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "base/bits.h"
#include "cli/client.h"
#include "cli/topview.h"
#include "cli/verbs.h"

#define METRICS_MOST       (4 * GB_MIB)
#define DEFAULT_PERIOD_MS  2000
#define DEFAULT_ROWS       24
#define DEFAULT_COLUMNS    80
#define CONTROL_C          '\x03'
#define SCREEN_OPEN        "\x1b[?1049h\x1b[?25l"
#define SCREEN_CLOSE       "\x1b[?25h\x1b[?1049l"
#define SCREEN_HOME        "\x1b[H"
#define SCREEN_END_OF_LINE "\x1b[K"
#define SCREEN_END         "\x1b[J"

struct top_settings {
    bool once;
    int64_t period_ms;
    const char *token_file;
};

static const struct gb_option top_options[] = {
    {.name = "once",
     .kind = GB_OPTION_FLAG,
     .offset = offsetof(struct top_settings, once),
     .help = "print what there was since the server started, and end"},
    {.name = "interval",
     .kind = GB_OPTION_DURATION,
     .offset = offsetof(struct top_settings, period_ms),
     .value = "TIME",
     .least = 100,
     .most = 3600000,
     .help = "between two looks (2s)"},
    {.name = "token-file",
     .kind = GB_OPTION_TEXT,
     .offset = offsetof(struct top_settings, token_file),
     .value = "FILE",
     .help = "whose first line is the token that the server wants"},
    {0},
};

struct screen {
    const char *address;
    struct termios before;
    char *samples[2]; /* the older one first */
    double at_s[2];
};

/* SIGTERM and the like end the wait for a key; the terminal is then put right. */
static volatile sig_atomic_t asked_to_end;

static void ask_to_end(int signal)
{
    (void)signal;
    asked_to_end = 1;
}

static void wake_up(int signal)
{
    (void)signal;
}

static double now_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ---- the terminal -------------------------------------------------------------------------- */

static int open_screen(struct screen *screen)
{
    const struct sigaction end = {.sa_handler = ask_to_end};
    const struct sigaction wake = {.sa_handler = wake_up}; /* by which poll returns */
    if (tcgetattr(STDIN_FILENO, &screen->before) != 0) {
        return -errno;
    }
    struct termios raw = screen->before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ISIG);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    (void)sigaction(SIGTERM, &end, NULL);
    (void)sigaction(SIGHUP, &end, NULL);
    (void)sigaction(SIGINT, &end, NULL);
    (void)sigaction(SIGWINCH, &wake, NULL);
    if (tcsetattr(STDIN_FILENO, TCSANOW, &raw) != 0) {
        return -errno;
    }
    (void)fputs(SCREEN_OPEN, stdout);
    return GOBLIN_OK;
}

static void close_screen(const struct screen *screen)
{
    (void)fputs(SCREEN_CLOSE, stdout);
    (void)fflush(stdout);
    (void)tcsetattr(STDIN_FILENO, TCSANOW, &screen->before);
}

/* As many lines of the text, and of each as many columns, as the terminal has now. */
static void show(const char *text)
{
    struct winsize size = {0};
    bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0;
    size_t rows = known ? size.ws_row : DEFAULT_ROWS;
    size_t columns = known ? size.ws_col : DEFAULT_COLUMNS;
    (void)fputs(SCREEN_HOME, stdout);
    for (size_t row = 0; row < rows && *text != '\0'; row++) {
        size_t len = strcspn(text, "\n");
        (void)printf("%s%.*s" SCREEN_END_OF_LINE, row == 0 ? "" : "\n", (int)gb_min(len, columns),
                     text);
        text += len + (text[len] == '\n');
    }
    (void)fputs(SCREEN_END, stdout);
    (void)fflush(stdout);
}

/* Whether to go on, once the time is over or the terminal has another size. */
static bool wait_for_key(int64_t period_ms)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    char key = 0;
    if (poll(&input, 1, (int)period_ms) > 0 && read(STDIN_FILENO, &key, 1) <= 0) {
        return false;
    }
    return asked_to_end == 0 && key != 'q' && key != 'Q' && key != CONTROL_C;
}

/* ---- looking ------------------------------------------------------------------------------- */

static int take_sample(struct screen *screen, const struct top_settings *settings,
                       struct goblin_error *error)
{
    char *text;
    int result = gb_client_fetch(&text, screen->address, settings->token_file, "/metrics",
                                 METRICS_MOST, error);
    if (result < 0) {
        return result;
    }
    free(screen->samples[0]);
    screen->samples[0] = screen->samples[1];
    screen->at_s[0] = screen->at_s[1];
    screen->samples[1] = text;
    screen->at_s[1] = now_s();
    return GOBLIN_OK;
}

static int show_samples(const struct screen *screen, const char *trouble)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    if (out == NULL) {
        return -ENOMEM;
    }
    gb_topview_write(out, screen->address, screen->samples[1], screen->samples[0],
                     screen->at_s[1] - screen->at_s[0]);
    (void)fprintf(out, "\n%s", trouble[0] != '\0' ? trouble : "q ends");
    int result = fclose(out) == 0 ? GOBLIN_OK : -ENOMEM;
    if (result == GOBLIN_OK) {
        show(text);
    }
    free(text);
    return result;
}

/* Begins with the sample that is there. A server that is away for a while is waited for; the last
 * view stays, with the reason. */
static int watch(struct screen *screen, const struct top_settings *settings)
{
    struct goblin_error error = {{0}};
    int result = show_samples(screen, "");
    while (result == GOBLIN_OK && wait_for_key(settings->period_ms)) {
        error.text[0] = '\0';
        (void)take_sample(screen, settings, &error);
        result = show_samples(screen, error.text);
    }
    return result;
}

static enum gb_exit run_top(const struct gb_verb_call *call)
{
    struct top_settings settings = *(const struct top_settings *)call->settings;
    struct screen screen = {.address = call->operands[0]};
    struct goblin_error error = {{0}};
    enum gb_exit code = GB_EXIT_OK;
    settings.period_ms = settings.period_ms == 0 ? DEFAULT_PERIOD_MS : settings.period_ms;
    int result = take_sample(&screen, &settings, &error);
    if (result < 0) {
        code =
            gb_say(result == GOBLIN_EOPTION ? GB_EXIT_USAGE : GB_EXIT_FAULT, "top: %s", error.text);
    } else if (settings.once) {
        gb_topview_write(stdout, screen.address, screen.samples[1], NULL, 0);
    } else if (isatty(STDIN_FILENO) == 0 || isatty(STDOUT_FILENO) == 0) {
        code = gb_say(GB_EXIT_USAGE, "top: this is no terminal: give --once");
    } else {
        result = open_screen(&screen);
        if (result == GOBLIN_OK) {
            result = watch(&screen, &settings);
            close_screen(&screen);
        }
        code = result < 0 ? gb_say(GB_EXIT_FAULT, "top: %s", goblin_strerror(result)) : GB_EXIT_OK;
    }
    free(screen.samples[0]);
    free(screen.samples[1]);
    return code;
}

const struct gb_verb gb_verbs_top = {
    .name = "top",
    .operands = "ADDRESS",
    .summary = "Shows live what a server does",
    .details = "ADDRESS is where it serves HTTP: HOST:PORT, or the path of a unix socket.",
    .options = top_options,
    .settings_bytes = sizeof(struct top_settings),
    .operands_least = 1,
    .operands_most = 1,
    .run = run_top,
};
