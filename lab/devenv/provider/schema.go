package main

import (
	"encoding/json"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// The form of the file. https://opentofu.org/docs/cli/commands/providers/schema/
type (
	providerSchemas struct {
		Provider    schema            `json:"provider"`
		Resources   map[string]schema `json:"resource_schemas"`
		DataSources map[string]schema `json:"data_source_schemas"`
	}
	schema struct {
		Version int64 `json:"version"`
		Block   block `json:"block"`
	}
	block struct {
		Attributes map[string]attribute   `json:"attributes"`
		Blocks     map[string]nestedBlock `json:"block_types"`
	}
	attribute struct {
		Type       json.RawMessage `json:"type"`
		Nested     *nestedType     `json:"nested_type"`
		Required   bool            `json:"required"`
		Optional   bool            `json:"optional"`
		Computed   bool            `json:"computed"`
		Sensitive  bool            `json:"sensitive"`
		Deprecated bool            `json:"deprecated"`
		WriteOnly  bool            `json:"write_only"`
	}
	nestedType struct {
		Attributes map[string]attribute `json:"attributes"`
		Nesting    string               `json:"nesting_mode"`
	}
	nestedBlock struct {
		Block    block  `json:"block"`
		Nesting  string `json:"nesting_mode"`
		MinItems int64  `json:"min_items"`
		MaxItems int64  `json:"max_items"`
	}
)

var (
	blockNesting = map[string]tfprotov6.SchemaNestedBlockNestingMode{
		"single": tfprotov6.SchemaNestedBlockNestingModeSingle,
		"list":   tfprotov6.SchemaNestedBlockNestingModeList,
		"set":    tfprotov6.SchemaNestedBlockNestingModeSet,
		"map":    tfprotov6.SchemaNestedBlockNestingModeMap,
		"group":  tfprotov6.SchemaNestedBlockNestingModeGroup,
	}
	objectNesting = map[string]tfprotov6.SchemaObjectNestingMode{
		"single": tfprotov6.SchemaObjectNestingModeSingle,
		"list":   tfprotov6.SchemaObjectNestingModeList,
		"set":    tfprotov6.SchemaObjectNestingModeSet,
		"map":    tfprotov6.SchemaObjectNestingModeMap,
	}
)

func (s schema) proto() *tfprotov6.Schema {
	return &tfprotov6.Schema{Version: s.Version, Block: s.Block.proto()}
}

func (b block) proto() *tfprotov6.SchemaBlock {
	out := &tfprotov6.SchemaBlock{Attributes: attributes(b.Attributes)}
	for name, nested := range b.Blocks {
		out.BlockTypes = append(out.BlockTypes, &tfprotov6.SchemaNestedBlock{
			TypeName: name,
			Block:    nested.Block.proto(),
			Nesting:  blockNesting[nested.Nesting],
			MinItems: nested.MinItems,
			MaxItems: nested.MaxItems,
		})
	}
	return out
}

func attributes(all map[string]attribute) []*tfprotov6.SchemaAttribute {
	var out []*tfprotov6.SchemaAttribute
	for name, a := range all {
		proto := &tfprotov6.SchemaAttribute{
			Name:     name,
			Required: a.Required, Optional: a.Optional, Computed: a.Computed,
			Sensitive: a.Sensitive, Deprecated: a.Deprecated, WriteOnly: a.WriteOnly,
		}
		if a.Nested != nil {
			proto.NestedType = &tfprotov6.SchemaObject{Attributes: attributes(a.Nested.Attributes), Nesting: objectNesting[a.Nested.Nesting]}
		} else {
			proto.Type = mustType(a.Type)
		}
		out = append(out, proto)
	}
	return out
}

// mustType panics, because a provider that starts with half a schema would let
// wrong configurations pass.
func mustType(text json.RawMessage) tftypes.Type {
	//nolint:staticcheck // deprecated for others than those who read the JSON of types
	kind, err := tftypes.ParseJSONType(text)
	if err != nil {
		panic(err)
	}
	return kind
}
