"""The colours of the web page, for gradio's own parts. `app.css` has those of the others."""

from __future__ import annotations

from typing import Any

_COLOURS = {
    "body_background_fill": ("#fbfaf7", "#171513"),
    "body_text_color": ("#1b1b1f", "#ece7df"),
    "body_text_color_subdued": ("#64605a", "#b3aca0"),
    "background_fill_primary": ("#ffffff", "#211e1b"),
    "background_fill_secondary": ("#fbfaf7", "#171513"),
    "border_color_primary": ("#e4e0d6", "#3a352f"),
    "block_background_fill": ("#ffffff", "#211e1b"),
    "block_info_text_color": ("#64605a", "#b3aca0"),
    "block_label_text_color": ("#1b1b1f", "#ece7df"),
    "block_title_text_color": ("#1b1b1f", "#ece7df"),
    "block_border_color": ("#e4e0d6", "#3a352f"),
    "input_background_fill": ("#fbfaf7", "#171513"),
    "input_background_fill_focus": ("#fbfaf7", "#171513"),
    "input_border_color": ("#cfc9bb", "#4d463e"),
    "input_border_width": ("1px", "1px"),
    "input_placeholder_color": ("#64605a", "#b3aca0"),
    "button_primary_background_fill": ("#8a3f08", "#a4530f"),
    "button_primary_background_fill_hover": ("#6f3206", "#8a4408"),
    "button_primary_border_color": ("#8a3f08", "#a4530f"),
    "button_primary_border_color_hover": ("#6f3206", "#8a4408"),
    "button_primary_text_color": ("#ffffff", "#ffffff"),
    "button_secondary_background_fill": ("#efece4", "#2d2925"),
    "button_secondary_background_fill_hover": ("#e4e0d6", "#3a352f"),
    "button_secondary_text_color": ("#1b1b1f", "#ece7df"),
    "checkbox_background_color": ("#ffffff", "#171513"),
    "checkbox_background_color_selected": ("#8a3f08", "#a4530f"),
    "checkbox_border_color": ("#cfc9bb", "#6b6359"),
    "checkbox_border_color_selected": ("#8a3f08", "#a4530f"),
    "checkbox_label_background_fill": ("#efece4", "#2d2925"),
    "checkbox_label_background_fill_hover": ("#e4e0d6", "#3a352f"),
    "checkbox_label_background_fill_selected": ("#efece4", "#2d2925"),
    "checkbox_label_text_color": ("#1b1b1f", "#ece7df"),
    "checkbox_label_text_color_selected": ("#1b1b1f", "#ece7df"),
    "slider_color": ("#8a3f08", "#e39a5b"),
}
"""The light and the dark value of each variable of the theme."""


def theme(gr: Any) -> Any:
    """Fonts of the system only, and colours for the light and the dark scheme, of which gradio
    takes that of the system."""
    sans, mono = ["system-ui", "sans-serif"], ["ui-monospace", "monospace"]
    light = {name: colour for name, (colour, _) in _COLOURS.items()}
    dark = {f"{name}_dark": colour for name, (_, colour) in _COLOURS.items()}
    return gr.themes.Base(primary_hue="orange", neutral_hue="stone", font=sans, font_mono=mono).set(
        **light, **dark
    )
