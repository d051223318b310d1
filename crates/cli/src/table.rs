//! Tables of text: the first column to the left, all others to the right unless they are words.

use comfy_table::{Cell, CellAlignment, ContentArrangement, presets};

/// A table.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    left: bool,
}

impl Table {
    /// With these headings.
    pub(crate) fn new(headings: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let mut table = Self::default();
        table.row(headings);
        table
    }

    /// One more row.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// With all columns to the left.
    pub(crate) fn left(mut self) -> Self {
        self.left = true;
        self
    }

    /// As text, without a last line end.
    pub(crate) fn text(&self) -> String {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        for row in &self.rows {
            let cells = row.iter().enumerate().map(|(column, cell)| {
                let words = column == 0 || self.left;
                let side = if words { CellAlignment::Left } else { CellAlignment::Right };
                Cell::new(cell).set_alignment(side)
            });
            table.add_row(cells);
        }
        table.column_iter_mut().for_each(|column| {
            column.set_padding((0, 2));
        });
        table.trim_fmt()
    }
}
