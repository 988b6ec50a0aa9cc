"""Films of an invented hospital, looked at through the tools that a model has.

Run: python examples/chest_films.py        (needs the extra [imaging]; half a minute)

It makes 12 patients with chest films, opens the chart of one of them just after a film was taken, shows the film, and
says what may be known of it by then: the report is not written yet.
"""

from __future__ import annotations

import tempfile
from datetime import timedelta
from pathlib import Path

from wardround.records import Store, ingest
from wardround.synth import synthesize
from wardround.synth.radiographs import write_films
from wardround.tools import Environment, EnvironmentOptions, default_toolset
from wardround.tools.imaging import ImageSettings, open_images

TOOLS = ("image.image_visualizer", "image.dicom_processor", "image.chest_xray_classifier")


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        synthesize(folder / "hospital", patients=12, seed=3, films=True)
        print(f"{write_films(folder / 'hospital')} films drawn")
        ingest("mimiciv", folder / "hospital", folder / "store")
        store = Store.open(folder / "store")
        subject, rows = next(iter(store.scan("cxr_images")))
        film = rows.to_pylist()[0]
        with_files = open_images(ImageSettings(source=str(folder / "hospital" / "cxr" / "files")))
        for minutes in (-1, 1, 60 * 24 * 2):
            chart = store.chart(subject, film["acquired"] + timedelta(minutes=minutes))
            options = EnvironmentOptions(images=with_files.of(chart, str(subject)))
            environment = Environment(chart, default_toolset(more=TOOLS), options)
            shown = environment.call("image.image_visualizer", {"image_path": film["row_id"]})
            reports = chart.table("cxr_reports").num_rows
            print(f"\n{minutes:+d} minutes: {len(shown.pictures)} picture, {reports} reports\n{shown.text}")
        print("\noffered:", ", ".join(name for name in TOOLS if name in environment.toolset.by_name))
        print("not offered, because there are no weights:", TOOLS[-1])


if __name__ == "__main__":
    main()
