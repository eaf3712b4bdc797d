/* The files of report/page and Vega, embedded in the program by cmake/embed.cmake; each ends with a NUL. */
#ifndef CH_REPORT_EMBEDDED_H
#define CH_REPORT_EMBEDDED_H

extern const unsigned char ch_embedded_shell_html[], ch_embedded_compare_html[];
extern const unsigned char ch_embedded_page_css[];
/* Scripts, in the order in which a page loads them. */
extern const unsigned char ch_embedded_modules_js[];
extern const unsigned char ch_embedded_vega_modules[]; /* Vega (BSD licence), Debian's libjs-vega */
extern const unsigned char ch_embedded_vega_js[], ch_embedded_chart_parts_js[], ch_embedded_chart_lines_js[],
    ch_embedded_chart_points_js[], ch_embedded_chart_bars_js[], ch_embedded_chart_heatmaps_js[],
    ch_embedded_figures_js[];

#endif
