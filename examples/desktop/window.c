/* A chat window: tern-window MODEL.gguf. The model is on a thread of its own (talker.h); this file is GTK alone. */
#include <gtk/gtk.h>

#include "talker.h"

typedef struct window {
    GtkApplication *application;
    const char *model;
    talker *talker;
    GtkTextBuffer *text;
    GtkWidget *view, *entry, *button, *status;
    gboolean ready, answering;
} window;

/* What the talker's thread hands to the main loop. */
typedef struct news {
    window *w;
    talker_event event;
    char *text;
} news;

static void append(window *w, const char *text, const char *tag) {
    GtkTextIter end;
    gtk_text_buffer_get_end_iter(w->text, &end);
    gtk_text_buffer_insert_with_tags_by_name(w->text, &end, text, -1, tag, NULL);
    gtk_text_view_scroll_to_mark(GTK_TEXT_VIEW(w->view), gtk_text_buffer_get_insert(w->text), 0, FALSE, 0, 1);
}

static void set_answering(window *w, gboolean answering) {
    w->answering = answering;
    gtk_button_set_label(GTK_BUTTON(w->button), answering ? "Stop" : "Send");
    gtk_widget_set_sensitive(w->entry, TRUE);
    gtk_widget_set_sensitive(w->button, TRUE);
    if (!answering) gtk_widget_grab_focus(w->entry);
}

static gboolean on_news(gpointer data) {
    news *n = data;
    window *w = n->w;
    switch (n->event) {
    case TALKER_OPENING: {
        char *line = g_strdup_printf("Opening the model: %s", n->text);
        gtk_label_set_text(GTK_LABEL(w->status), line);
        g_free(line);
        break;
    }
    case TALKER_READY:
        w->ready = TRUE;
        set_answering(w, FALSE);
        gtk_label_set_text(GTK_LABEL(w->status), "Ready");
        break;
    case TALKER_READING: {
        char *line = g_strdup_printf("Reading %s", n->text);
        gtk_label_set_text(GTK_LABEL(w->status), line);
        g_free(line);
        break;
    }
    case TALKER_PIECE:
        gtk_label_set_text(GTK_LABEL(w->status), "Answering");
        append(w, n->text, "answer");
        break;
    case TALKER_DONE:
        append(w, "\n\n", "answer");
        set_answering(w, FALSE);
        gtk_label_set_text(GTK_LABEL(w->status), "Ready");
        break;
    case TALKER_FAILED:
        if (w->ready) set_answering(w, FALSE); /* else there is no model to ask */
        gtk_label_set_text(GTK_LABEL(w->status), n->text);
        break;
    }
    g_free(n->text);
    g_free(n);
    return G_SOURCE_REMOVE;
}

static void tell(void *user, talker_event event, const char *text) {
    news *n = g_new(news, 1);
    *n = (news){user, event, g_strdup(text)};
    g_idle_add(on_news, n);
}

/* The button, which stops an answer, or the Enter key, which waits for its end. */
static void on_send(GtkWidget *widget, gpointer data) {
    window *w = data;
    if (w->answering) {
        if (widget == w->button) talker_cancel(w->talker);
        return;
    }
    char *question = g_strdup(gtk_editable_get_text(GTK_EDITABLE(w->entry)));
    if (*question) {
        append(w, question, "question");
        append(w, "\n", "answer");
        gtk_editable_set_text(GTK_EDITABLE(w->entry), "");
        set_answering(w, TRUE);
        talker_ask(w->talker, question);
    }
    g_free(question);
}

static void make_widgets(window *w, GtkWidget *top) {
    GtkWidget *column = gtk_box_new(GTK_ORIENTATION_VERTICAL, 6),
              *row = gtk_box_new(GTK_ORIENTATION_HORIZONTAL, 6);
    GtkWidget *scrolled = gtk_scrolled_window_new();
    w->view = gtk_text_view_new();
    w->entry = gtk_entry_new();
    w->button = gtk_button_new_with_label("Send");
    w->status = gtk_label_new("Opening the model");
    w->text = gtk_text_view_get_buffer(GTK_TEXT_VIEW(w->view));
    gtk_text_buffer_create_tag(w->text, "question", "weight", PANGO_WEIGHT_BOLD, NULL);
    gtk_text_buffer_create_tag(w->text, "answer", NULL);
    gtk_text_view_set_editable(GTK_TEXT_VIEW(w->view), FALSE);
    gtk_text_view_set_cursor_visible(GTK_TEXT_VIEW(w->view), FALSE);
    gtk_text_view_set_left_margin(GTK_TEXT_VIEW(w->view), 12);
    gtk_text_view_set_right_margin(GTK_TEXT_VIEW(w->view), 12);
    gtk_text_view_set_top_margin(GTK_TEXT_VIEW(w->view), 12);
    gtk_text_view_set_wrap_mode(GTK_TEXT_VIEW(w->view), GTK_WRAP_WORD_CHAR);
    gtk_label_set_xalign(GTK_LABEL(w->status), 0);
    gtk_label_set_wrap(GTK_LABEL(w->status), TRUE);
    gtk_widget_set_vexpand(scrolled, TRUE);
    gtk_widget_set_margin_start(row, 12);
    gtk_widget_set_margin_end(row, 12);
    gtk_widget_set_margin_start(w->status, 12);
    gtk_widget_set_margin_bottom(w->status, 6);
    gtk_widget_set_hexpand(w->entry, TRUE);
    gtk_widget_set_sensitive(w->entry, FALSE);
    gtk_widget_set_sensitive(w->button, FALSE);
    gtk_scrolled_window_set_child(GTK_SCROLLED_WINDOW(scrolled), w->view);
    gtk_box_append(GTK_BOX(row), w->entry);
    gtk_box_append(GTK_BOX(row), w->button);
    gtk_box_append(GTK_BOX(column), scrolled);
    gtk_box_append(GTK_BOX(column), row);
    gtk_box_append(GTK_BOX(column), w->status);
    gtk_window_set_child(GTK_WINDOW(top), column);
    g_signal_connect(w->entry, "activate", G_CALLBACK(on_send), w);
    g_signal_connect(w->button, "clicked", G_CALLBACK(on_send), w);
}

static void on_activate(GtkApplication *application, gpointer data) {
    window *w = data;
    if (w->talker) return;
    GtkWidget *top = gtk_application_window_new(application);
    gtk_window_set_title(GTK_WINDOW(top), "tern");
    gtk_window_set_default_size(GTK_WINDOW(top), 560, 480);
    make_widgets(w, top);
    gtk_window_present(GTK_WINDOW(top));
    w->talker = talker_new(w->model, tell, w);
    if (!w->talker) gtk_label_set_text(GTK_LABEL(w->status), "There is no thread for the model");
}

int main(int argc, char **argv) {
    if (argc != 2) {
        g_printerr("usage: tern-window MODEL.gguf\n");
        return 2;
    }
    window w = {.model = argv[1], .application = gtk_application_new(NULL, G_APPLICATION_NON_UNIQUE)};
    g_signal_connect(w.application, "activate", G_CALLBACK(on_activate), &w);
    const int exit_code = g_application_run(G_APPLICATION(w.application), 1, argv);
    talker_free(w.talker);
    g_object_unref(w.application);
    return exit_code;
}
