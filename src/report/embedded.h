/* The files of web/ and Chart.js, put into the program by cmake/embed.cmake; each ends with a NUL. */
#ifndef CH_REPORT_EMBEDDED_H
#define CH_REPORT_EMBEDDED_H

extern const unsigned char ch_embedded_report_html[];
extern const unsigned char ch_embedded_report_css[];
extern const unsigned char ch_embedded_report_js[];
extern const unsigned char ch_embedded_chart_js[]; /* Chart.js (MIT licence), Debian's libjs-chart.js */

#endif
