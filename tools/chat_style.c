#include "chat_style.h"

#include <string.h>

static const char *const tags[] = {"<think>", "</think>"};

/* ---- Output ---- */

static void show_look(tn_style *s, tn_look look) {
    char sequence[32] = "\033[0";
    if (!s->colours || memcmp(&look, &s->shown, sizeof look) == 0) return;
    if (look.reasoning) strcat(sequence, ";2");
    if (look.bold || look.heading) strcat(sequence, ";1");
    if (look.code || look.fence) strcat(sequence, ";36");
    strcat(sequence, "m");
    tn_wrap_sequence(&s->wrap, sequence);
    s->shown = look;
}

static void put(tn_style *s, char c) {
    if (s->look.reasoning && s->hide_reasoning) return;
    if (s->skip_newlines && c == '\n') return;
    s->skip_newlines = false;
    show_look(s, s->look);
    tn_wrap_byte(&s->wrap, c, s->look.fence);
    s->wrote = true;
    s->ends_in_newline = c == '\n';
}

/* ---- Marks ---- */

/* Runs of these mean something; of '#' and '-' at the start of a line alone. */
static bool is_mark(const tn_style *s, char c) {
    if (s->look.fence) return c == '`' && s->line_start;
    return c == '`' || c == '*' || (s->line_start && (c == '#' || c == '-'));
}

/* What a run of marks changes, seen together with the character behind it. */
static void turn(tn_style *s, char next, tn_look *look) {
    switch (s->mark) {
    case '`':
        if (s->mark_at_start && s->n_marks >= 3)
            look->fence = !look->fence, look->code = look->bold = false;
        else if (!look->fence)
            look->code = !look->code;
        break;
    case '*':
        if (s->n_marks >= 2 && !look->code) look->bold = !look->bold;
        break;
    case '#':
        if (s->n_marks <= 6 && next == ' ') look->heading = true;
        break;
    default: break;
    }
}

static bool is_bullet(const tn_style *s, char next) {
    return s->mark_at_start && s->n_marks == 1 && next == ' ' && (s->mark == '*' || s->mark == '-');
}

/* The run is over: marks look like what they open or close. */
static void end_marks(tn_style *s, char next) {
    if (!s->mark) return;
    tn_look look = s->look;
    turn(s, next, &look);
    const tn_look before = s->look;
    s->look = (tn_look){.reasoning = look.reasoning,
                        .fence = look.fence || before.fence,
                        .code = look.code || before.code,
                        .bold = look.bold || before.bold || is_bullet(s, next),
                        .heading = look.heading || before.heading};
    for (unsigned i = 0; i < s->n_marks; i++) put(s, s->mark);
    s->look = look;
    s->mark = 0;
    s->n_marks = 0;
    s->line_start = false;
}

static void character(tn_style *s, char c) {
    if (s->mark && c == s->mark) {
        s->n_marks++;
        return;
    }
    end_marks(s, c);
    if (is_mark(s, c)) {
        s->mark = c;
        s->n_marks = 1;
        s->mark_at_start = s->line_start;
        return;
    }
    put(s, c);
    if (c == '\n') {
        s->line_start = true;
        s->look.code = s->look.bold = s->look.heading = false;
    } else if (c != ' ') {
        s->line_start = false;
    }
}

/* ---- Reasoning ---- */

/* The tag that the held bytes are or may become; -1: none. */
static int tag_of(const tn_style *s) {
    for (int i = 0; i < 2; i++)
        if (strncmp(tags[i], s->tag, s->n_tag) == 0) return i;
    return -1;
}

static void end_tag(tn_style *s, int tag) {
    s->look = (tn_look){.reasoning = true};
    for (size_t i = 0; i < s->n_tag; i++) put(s, s->tag[i]);
    s->look.reasoning = tag == 0;
    s->skip_newlines = tag == 1 && s->hide_reasoning;
    s->n_tag = 0;
}

static void give_up_tag(tn_style *s) {
    const size_t n = s->n_tag;
    s->n_tag = 0;
    for (size_t i = 0; i < n; i++) character(s, s->tag[i]);
}

static void filter_tags(tn_style *s, char c) {
    if (s->n_tag == 0 && (c != '<' || s->look.fence)) {
        character(s, c);
        return;
    }
    if (s->n_tag == 0) end_marks(s, c);
    s->tag[s->n_tag++] = c;
    const int tag = tag_of(s);
    if (tag >= 0) {
        if (s->n_tag == strlen(tags[tag])) end_tag(s, tag);
        return;
    }
    s->n_tag--; /* not part of a tag, but c may begin one */
    give_up_tag(s);
    filter_tags(s, c);
}

/* ---- The whole ---- */

void tn_style_start(tn_style *s, bool is_terminal, bool colours, bool hide_reasoning, bool reasoning) {
    *s = (tn_style){.colours = colours,
                    .hide_reasoning = hide_reasoning,
                    .look = {.reasoning = reasoning},
                    .line_start = true};
    tn_wrap_start(&s->wrap, is_terminal);
}

void tn_style_text(tn_style *s, const char *text, size_t n) {
    for (size_t i = 0; i < n; i++) filter_tags(s, text[i]);
    tn_wrap_write(&s->wrap);
}

void tn_style_new_line(tn_style *s) {
    tn_wrap_end(&s->wrap);
    if (!s->wrap.is_terminal || s->wrap.column == 0) return;
    tn_wrap_byte(&s->wrap, '\n', true);
    tn_wrap_write(&s->wrap);
}

void tn_style_end(tn_style *s) {
    give_up_tag(s);
    end_marks(s, '\n');
    show_look(s, (tn_look){0});
    tn_wrap_end(&s->wrap);
}
