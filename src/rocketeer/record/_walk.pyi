from rocketeer.record.walk_plain import walk_piece as walk_piece
